"""VPN servers: read from links and subscriptions, written as the settings of an engine."""
