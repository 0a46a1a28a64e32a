"""Our files."""
