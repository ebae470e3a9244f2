"""Whether a port is free to listen on."""

import socket

from dayzero.errors import DependencyError


def require_free(host: str, port: int, setting: str) -> None:
    """DependencyError that names port and setting when something listens there already."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise DependencyError(
                f"port {port} on {host} cannot be listened on: {error.strerror}.",
                remedy=f"Stop what uses it, or choose another port with {setting}.",
            ) from error


def answers(host: str, port: int) -> bool:
    """Whether something accepts connections there."""
    try:
        with socket.create_connection((host, port), timeout=1.0):
            return True
    except OSError:
        return False


def free_port(host: str) -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
