"""Which rank holds which slice of which tensor."""
