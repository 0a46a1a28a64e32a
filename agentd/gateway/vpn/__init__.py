"""VPN links, subscriptions and the programs that serve them."""
