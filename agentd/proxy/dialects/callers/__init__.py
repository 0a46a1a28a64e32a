"""The languages of the gateway's callers."""
