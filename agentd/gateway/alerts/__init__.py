"""Alerts of the gateway: what is wrong, and to whom it is told."""
