"""Deployments: programs started from the repository."""
