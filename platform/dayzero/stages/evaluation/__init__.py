"""Whether two sets of answers differ: exact paired tests, intervals, and what so many items can see."""
