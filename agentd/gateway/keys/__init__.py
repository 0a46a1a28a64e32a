"""Access keys of the gateway: their file, their secrets, who is revoked."""
