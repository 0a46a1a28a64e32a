"""The export of the ledger to an analytics database: what is sent, and what is still to be."""
