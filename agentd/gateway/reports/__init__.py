"""Reports over the ledger."""
