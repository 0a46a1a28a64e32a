"""Alerts of the gateway: what is wrong, and who is notified."""
