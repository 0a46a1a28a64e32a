"""The models that a chat can use."""
