"""Operational events of the gateway."""
