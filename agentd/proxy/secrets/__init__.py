"""Secrets never leave the machine: they are found, hidden in requests and put back in replies."""
