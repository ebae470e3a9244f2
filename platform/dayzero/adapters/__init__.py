"""One folder for each outside thing; siblings never import each other."""
