"""The Agent Client Protocol for editors: a session of the editor is a chat of a running daemon."""
