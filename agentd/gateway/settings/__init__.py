"""Settings of the gateway."""
