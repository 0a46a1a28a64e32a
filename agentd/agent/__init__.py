"""The coding agent at work: dispatching prompts, and engines that carry them out."""
