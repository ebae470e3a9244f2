"""A small OpenID provider of our own with RSA keys: it answers as it should, or wrongly in one named way."""

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT = "dayzero"
SECRET = "s3cret:with/signs"


@dataclass
class Provider:
    """What it knows. `trick` names what it does wrong; `asked` are the paths that were asked for."""

    url: str = ""
    trick: str = ""
    claims: dict[str, Any] = field(default_factory=lambda: {"sub": "u-1", "name": "Ada", "groups": ["ml-platform", "all"]})
    keys: list[RSAKey] = field(default_factory=lambda: [RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})])
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    once: bool = True

    def discovery(self) -> dict[str, Any]:
        """The document of discovery."""
        elsewhere = "http://localhost:9" if self.trick == "elsewhere" else self.url
        found: dict[str, Any] = {
            "issuer": "https://other.test" if self.trick == "other issuer" else self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{elsewhere}/token",
            "jwks_uri": f"{self.url}/keys",
            "code_challenge_methods_supported": ["plain"] if self.trick == "no pkce" else ["S256"],
        }
        if self.trick == "post":
            found["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
        return found

    def allow(self, address: str) -> str:
        """What a person's consent does: the address that the browser is sent back to."""
        asked = {key: values[0] for key, values in parse_qs(urlsplit(address).query).items()}
        assert asked["response_type"] == "code" and asked["client_id"] == CLIENT and asked["code_challenge_method"] == "S256"
        code = f"code-{len(self.codes)}"
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state'], 'iss': self.url})}"

    def redeem(self, fields: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """The answer of the token endpoint."""
        found = self.codes.pop(fields.get("code", ""), None) if self.once else self.codes.get(fields.get("code", ""))
        if found is None or fields["redirect_uri"] != found["redirect_uri"]:
            return 400, {"error": "invalid_grant", "error_description": "no such code"}
        digest = hashlib.sha256(fields["code_verifier"].encode()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != found["code_challenge"]:
            return 400, {"error": "invalid_grant", "error_description": "the verifier does not fit"}
        if self._secret(fields, authorization) != (CLIENT, SECRET):
            return 401, {"error": "invalid_client"}
        return 200, {"token_type": "Bearer", "access_token": "x", "id_token": self.id_token(found["nonce"])}

    def _secret(self, fields: dict[str, str], authorization: str) -> tuple[str, str]:
        if self.trick == "post":
            return fields["client_id"], fields["client_secret"]
        name, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        return unquote(name), unquote(secret)

    def id_token(self, nonce: str) -> str:
        """An ID token, true but for the trick."""
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": nonce, **self.claims}
        claims |= {
            "nonce": {"nonce": "another"}, "audience": {"aud": "another"}, "audiences": {"aud": [CLIENT, "another"]},
            "azp": {"azp": "another"}, "issuer": {"iss": "https://other.test"}, "expired": {"exp": now - 600},
            "future": {"iat": now + 9000}, "nbf": {"nbf": now + 9000}, "exp text": {"exp": "never"},
        }.get(self.trick, {})  # fmt: skip
        for name in ("sub", "exp", "nonce", "aud", "iat"):
            if self.trick == f"no {name}":
                del claims[name]
        if self.trick == "none":
            return _joined({"alg": "none", "typ": "JWT"}, claims) + "."
        if self.trick == "shared secret":
            # The public key as an HMAC secret: what a checker accepts that lets the token name its algorithm.
            text = _joined({"alg": "HS256", "kid": "one"}, claims)
            mark = hmac.digest(self.keys[0].as_pem(private=False), text.encode(), "sha256")
            return f"{text}.{base64.urlsafe_b64encode(mark).rstrip(b'=').decode()}"
        if self.trick in ("unknown key", "stolen name"):
            stranger = RSAKey.generate_key(2048)
            return jwt.encode({"alg": "RS256", "kid": "one" if self.trick == "stolen name" else "two"}, claims, stranger)
        signed = jwt.encode({"alg": "RS256", "kid": str(self.keys[-1].kid)}, claims, self.keys[-1])
        if self.trick == "changed":
            head, _, mark = signed.split(".")
            return f"{head}.{_joined(claims | {'sub': 'root'})}.{mark}"
        return signed


def _joined(*parts: dict[str, Any]) -> str:
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)


@contextmanager
def serving(provider: Provider) -> Iterator[Provider]:
    """Serve it on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            provider.asked.append(path)
            if path == "/authorize":
                self.send_response(302)
                self.send_header("location", provider.allow(self.path))
                self.end_headers()
            elif path == "/.well-known/openid-configuration":
                self._answer(200, provider.discovery())
            else:
                self._answer(200, {"keys": [key.as_dict(private=False) for key in provider.keys]})

        def do_POST(self) -> None:
            provider.asked.append(self.path)
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            fields = {key: values[0] for key, values in parse_qs(body).items()}
            self._answer(*provider.redeem(fields, self.headers.get("authorization", "")))

        def _answer(self, status: int, document: dict[str, Any]) -> None:
            data = json.dumps(document).encode()
            if provider.trick == "down":
                status, data = 503, b"down"
            elif provider.trick == "redirects":
                self.send_response(302)
                self.send_header("location", "http://localhost:9/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()
                return
            elif provider.trick == "flood":
                data = b" " * (2 << 20)
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
