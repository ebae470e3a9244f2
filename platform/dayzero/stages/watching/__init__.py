"""How far a repository has come."""
