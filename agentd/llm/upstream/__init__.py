"""Connections to suppliers: HTTP client, proxies, addresses that may be called."""
