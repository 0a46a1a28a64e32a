"""The rules of agentd, each by a test."""
