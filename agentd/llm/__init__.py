"""Speaking to model suppliers: the neutral conversation, dialects, prices, HTTP client."""
