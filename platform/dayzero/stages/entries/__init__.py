"""What verdicts make of a compatibility entry, and what is left for the day."""
