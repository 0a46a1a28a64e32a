"""The model gateway: relay, access keys, limits, channels, secrets, ledger, management."""
