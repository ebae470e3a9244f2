"""The truth in PostgreSQL: server, schema, and the ledger and catalog on top of it."""
