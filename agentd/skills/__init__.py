"""Skills: instructions that a chat can be given."""
