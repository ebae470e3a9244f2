"""What a browser keeps of a sign-in, encrypted under a key of its own."""

from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken

from dayzero.codec import dump, load
from dayzero.disk import refusals_spoken, write_whole
from dayzero.domain.signing_in import Pending
from dayzero.errors import BadInputError

_LONGEST = 4000


class FernetSeals:
    """ports.access.Seals with a key in a file, made when it is first needed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def seal(self, pending: Pending) -> str:
        """As a text for a cookie."""
        return self._fernet().encrypt(dump(pending)).decode()

    def opened(self, text: str, within_s: int) -> Pending:
        """What was sealed, that long ago at most. BadInputError."""
        try:
            return load(Pending, self._fernet().decrypt(text[:_LONGEST].encode("utf-8", "replace"), ttl=within_s))
        except InvalidToken as error:
            raise BadInputError(
                f"this sign-in was not begun here, or more than {within_s} s ago.", remedy="Sign in again."
            ) from error

    def _fernet(self) -> Fernet:
        with refusals_spoken(self._path):
            if not self._path.exists():
                self._path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(self._path, Fernet.generate_key(), mode=0o600)
            return Fernet(self._path.read_bytes())
