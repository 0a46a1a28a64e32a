"""Labels of chats."""
