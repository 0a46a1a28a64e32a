"""The operating system: child processes, confined folders, safe writes, ports."""
