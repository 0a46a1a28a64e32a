"""The tests of agentd.chats."""
