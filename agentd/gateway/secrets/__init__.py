"""Hiding secrets from suppliers, and putting them back in replies."""
