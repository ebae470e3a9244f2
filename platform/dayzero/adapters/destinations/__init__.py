"""Places beyond this host that shards and releases are put to and taken from, by fsspec's URLs."""
