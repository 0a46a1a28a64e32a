"""The repository's state, history and commits."""
