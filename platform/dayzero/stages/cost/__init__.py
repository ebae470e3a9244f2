"""How long a step takes: rooflines, links, queues."""
