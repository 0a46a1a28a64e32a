"""The small lists that a chat chooses from."""
