"""The world around: programs, the workspace, the service manager."""
