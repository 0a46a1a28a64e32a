"""The engines that work on prompts: agentd's own, and programs that it runs."""
