"""Hooks: command lines that run before and after tools, with a prompt, and at a turn's end."""
