"""Analytics of chats: costs and outcomes by day."""
