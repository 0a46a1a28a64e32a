"""Custom commands: prompts that are written down, and sent by ``/name``."""
