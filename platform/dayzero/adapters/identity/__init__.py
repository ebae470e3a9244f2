"""Providers of identities, asked who somebody is."""
