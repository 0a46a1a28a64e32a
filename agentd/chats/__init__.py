"""A conversation, the prompts waiting in it, and what is remembered of both."""
