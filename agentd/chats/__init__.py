"""Conversations, the prompt queue, turns and the trash."""
