"""Configurations of other gateways, mapped to channels and models. Pure."""
