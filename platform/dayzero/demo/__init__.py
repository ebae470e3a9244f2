"""The demo: three models appear on a local hub, and what comes of each is announced beforehand."""
