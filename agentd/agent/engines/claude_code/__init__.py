"""Claude Code by its stream-json protocol."""
