"""The models that the gateway offers."""
