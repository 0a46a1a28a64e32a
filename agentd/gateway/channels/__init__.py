"""Channels to suppliers: their file, their check, and which of them a request takes."""
