"""Management of the gateway under one journal of changes with undo."""
