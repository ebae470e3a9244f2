"""Published packages read as data: found by pip, checked by their sha256, never installed and never executed."""
