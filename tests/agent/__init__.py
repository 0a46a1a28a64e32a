"""The tests of agentd.agent."""
