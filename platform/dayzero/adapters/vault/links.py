"""Links that only this control plane can have made: to confirm a subscription, and to leave one."""

import secrets
from pathlib import Path

from itsdangerous import BadSignature, URLSafeTimedSerializer

from dayzero.disk import write_whole
from dayzero.errors import BadInputError

CONFIRM_WITHIN_S = 7 * 24 * 3600
_KEY_BYTES = 32


class SignedLinks:
    """ports.telling.Links with a key in a file of its own, made when it is first needed."""

    def __init__(self, path: Path, public_url: str) -> None:
        self._path = path
        self._public_url = public_url.rstrip("/")

    def confirm_url(self, subscription_id: str) -> str:
        """Where whoever is reached confirms; good for a week."""
        return f"{self._public_url}/subscribe/confirm?token={self._signer('confirm').dumps(subscription_id)}"

    def leave_url(self, subscription_id: str) -> str:
        """Where whoever is reached unsubscribes; good for as long as the subscription is."""
        return f"{self._public_url}/subscribe/leave?token={self._signer('leave').dumps(subscription_id)}"

    def confirming(self, token: str) -> str:
        """The subscription that a link confirms. BadInputError: forged, or older than a week."""
        return self._read("confirm", token, CONFIRM_WITHIN_S)

    def leaving(self, token: str) -> str:
        """The subscription that a link leaves. BadInputError: forged."""
        return self._read("leave", token, None)

    def _read(self, purpose: str, token: str, within_s: int | None) -> str:
        try:
            return str(self._signer(purpose).loads(token[:1000], max_age=within_s))
        except BadSignature as error:
            raise BadInputError("this link is not good (any more).", remedy="Subscribe again, or ask the operator.") from error

    def _signer(self, purpose: str) -> URLSafeTimedSerializer:
        if not self._path.exists():
            write_whole(self._path, secrets.token_hex(_KEY_BYTES).encode(), mode=0o600)
        return URLSafeTimedSerializer(self._path.read_text(), salt=f"dayzero subscription {purpose}")
