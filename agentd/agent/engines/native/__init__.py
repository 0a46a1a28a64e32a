"""The engine of agentd itself: a loop over a model with tools."""
