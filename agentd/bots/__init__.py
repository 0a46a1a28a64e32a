"""Messengers: how a conversation there becomes a chat here, and what is told back."""
