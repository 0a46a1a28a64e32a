"""Programs that use the official clients of the Model Context Protocol."""
