"""The engine that needs no model: it answers what a grammar understands."""
