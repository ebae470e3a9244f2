"""A folder of models as a hub that real clients use unchanged."""

from dayzero.adapters.hubs.serving.app import serve_app
from dayzero.adapters.hubs.serving.server import HubServer

__all__ = ["HubServer", "serve_app"]
