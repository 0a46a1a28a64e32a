"""Hand-written YAML: strict reading with line numbers, and edits that keep comments."""
