"""Failed builds handed to the agent."""
