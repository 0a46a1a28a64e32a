"""Programs that use the official clients of the Agent Client Protocol."""
