"""The embedded engine: no language model, no network, honest about both."""
