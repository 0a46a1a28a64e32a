"""Endpoints of the management API."""
