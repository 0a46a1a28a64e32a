"""Rows of the routes table by surface; ``web.routes`` puts them together."""
