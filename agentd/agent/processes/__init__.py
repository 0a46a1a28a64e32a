"""Command lines that the native engine runs in the background of a chat."""
