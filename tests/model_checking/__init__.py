"""Model checking: real code and a small model of it go through every sequence of steps."""
