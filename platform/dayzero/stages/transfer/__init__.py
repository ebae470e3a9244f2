"""Moving weights, thought through: which source bytes go where, and what a node has to ask for."""
