"""The ledger over HTTP, for workers."""
