"""A client of the list for other programs: typed, synchronous, over HTTP; it needs httpx and nothing else of dayzero."""

from dayzero.client.client import Client, Entry, Refused

__all__ = ["Client", "Entry", "Refused"]
