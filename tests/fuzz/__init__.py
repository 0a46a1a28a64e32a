"""Fuzzing: parsers of what comes from outside, with bytes that nobody meant."""
