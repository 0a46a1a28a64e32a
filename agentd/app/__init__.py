"""Composition root: builds all services, starts them in order, stops them in reverse."""
