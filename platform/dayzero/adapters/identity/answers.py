"""What a provider is asked over HTTP: its own origins alone, no redirects, no proxy of the environment, small answers."""

import json
import ssl
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import httpx

from dayzero.errors import BadInputError, UnavailableError

Json = Mapping[str, Any]
TIMEOUT_S = 10.0
LARGEST_BYTES = 1 << 20


class Origins:
    """Scheme, host and port of every address that may be used. BadInputError for one that is not https (loopback apart)."""

    def __init__(self, urls: Iterable[str]) -> None:
        self._origins = {_origin(url): url for url in urls}
        for (scheme, host, _), url in self._origins.items():
            if scheme != "https" and not (scheme == "http" and is_loopback(host)):
                raise BadInputError(
                    f"{url[:200]!r} is no address of a provider: only https is, or http on loopback.",
                    remedy="Correct DAYZERO_OIDC_ISSUER or DAYZERO_OIDC_ORIGINS.",
                )

    def demand(self, url: str, what: str) -> None:
        """BadInputError for an address elsewhere."""
        if _origin(url) not in self._origins:
            raise BadInputError(
                f"the provider's {what} is at {url[:200]!r}, and only {', '.join(self._origins.values())} may be contacted.",
                remedy="If that is right, add its origin to DAYZERO_OIDC_ORIGINS.",
            )


class Web:
    """GET and POST of JSON. UnavailableError: no answer, or none that can be used. BadInputError: the provider refuses."""

    def __init__(self, origins: Origins) -> None:
        self.origins = origins
        # Proxies of the environment would be contacted too; the host's own authorities are trusted.
        self._client = httpx.Client(
            timeout=TIMEOUT_S, follow_redirects=False, trust_env=False, verify=ssl.create_default_context()
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def get(self, url: str) -> Json:
        """The document at an address."""
        return self._answered("GET", url, None, {})

    def post(self, url: str, fields: Mapping[str, str], headers: Mapping[str, str]) -> Json:
        """The answer to a form."""
        return self._answered("POST", url, fields, headers)

    def _answered(self, method: str, url: str, fields: Mapping[str, str] | None, headers: Mapping[str, str]) -> Json:
        self.origins.demand(url, "address")
        asked = {"accept": "application/json", **headers}
        try:
            with self._client.stream(method, url, data=fields, headers=asked) as response:
                body = bytearray()
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > LARGEST_BYTES:
                        raise UnavailableError(f"{url} answers more than {LARGEST_BYTES} bytes.")
                return _document(url, response, bytes(body))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise UnavailableError(
                f"the provider at {url} does not answer ({type(error).__name__}).", remedy="Try again, or use a token."
            ) from error


def text_in(document: Json, name: str) -> str:
    """A text of the document. UnavailableError where there is none."""
    found = document.get(name)
    if not isinstance(found, str) or not found:
        raise UnavailableError(f"the provider's answer has no {name}.")
    return found


def is_loopback(host: str) -> bool:
    """Whether only this host is meant."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _document(url: str, response: httpx.Response, body: bytes) -> Json:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UnavailableError(f"{url} answered {response.status_code} without JSON.") from error
    if not isinstance(found, dict):
        raise UnavailableError(f"{url} answered {response.status_code} with JSON that is no object.")
    if response.is_success:
        return found
    if response.is_client_error and isinstance(found.get("error"), str):
        said = f"{found['error']}: {found.get('error_description', '')}"[:300].rstrip(": ")
        raise BadInputError(f"the provider refuses ({said}).", remedy="Sign in again.")
    raise UnavailableError(f"{url} answered {response.status_code}.", remedy="Try again, or use a token.")


def _origin(url: str) -> tuple[str, str, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError as error:
        raise BadInputError(f"{url[:200]!r} is no address.", remedy="Write https://host[:port]/path.") from error
    if not parts.hostname or parts.username is not None:
        raise BadInputError(f"{url[:200]!r} is no address.", remedy="Write https://host[:port]/path.")
    return parts.scheme, parts.hostname, port
