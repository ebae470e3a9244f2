"""Shipped platform profiles and the operator taxonomy: data with sources."""
