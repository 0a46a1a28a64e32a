"""Spend limits and rate limits of access keys."""
