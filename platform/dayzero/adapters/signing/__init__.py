"""Signatures of a site: Ed25519 keys, and records signed with them."""
