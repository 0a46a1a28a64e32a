"""The working repository: what is built from it, and what is run of it."""
