"""Licences of the gateway."""
