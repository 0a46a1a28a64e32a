"""Files that callers upload for a chat."""
