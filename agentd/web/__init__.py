"""HTTP: the only package that knows Tornado's handlers."""
