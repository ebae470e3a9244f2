"""Files of releases on this site's disk, named by their sha256, and what refers to them."""
