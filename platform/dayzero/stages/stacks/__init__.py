"""Which stack a release takes."""
