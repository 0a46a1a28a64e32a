"""The price catalogue: prices and context sizes of known models."""
