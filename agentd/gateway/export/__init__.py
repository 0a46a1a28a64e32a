"""Export of the ledger to an analytics database."""
