"""The model gateway at work: one request from its admission to its line in the ledger."""
