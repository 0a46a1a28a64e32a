"""Metrics of the gateway: what was counted since the start, in the format of Prometheus."""
