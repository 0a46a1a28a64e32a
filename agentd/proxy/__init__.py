"""The model proxy: what goes to a supplier, what comes back, and what it costs."""
