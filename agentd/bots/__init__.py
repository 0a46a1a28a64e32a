"""Messengers: chats by Telegram."""
