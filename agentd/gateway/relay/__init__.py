"""A gateway request from its admission to its record in the ledger."""
