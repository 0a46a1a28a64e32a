"""Bytes and values, without waiting."""
