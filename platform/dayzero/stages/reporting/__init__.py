"""What a page shows of an entry or a run, and what two of them differ in."""
