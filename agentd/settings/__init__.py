"""The settings of the daemon and of its chats."""
