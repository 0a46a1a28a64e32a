"""The ledger: what each request cost, on disk and in reports."""
