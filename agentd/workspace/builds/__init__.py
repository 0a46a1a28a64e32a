"""Builds: commands, their output and the problems in it."""
