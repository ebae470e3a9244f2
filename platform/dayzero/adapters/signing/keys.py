"""Ed25519 keys of a site: a private one in a file that only its owner reads, public ones as text."""

import base64
import binascii
import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from dayzero.disk import refusals_spoken
from dayzero.errors import BadInputError, NotFoundError

_PREFIX = "ed25519:"
_ID_DIGITS = 16
_LARGEST_KEY_BYTES = 4096
_MAKE_ONE = "Make one with `dayzero keys new`."


@dataclass(frozen=True, slots=True)
class PublicKey:
    """The 32 bytes of a public key."""

    raw: bytes

    @property
    def id(self) -> str:
        """The first 16 hex digits of its sha256: how records name it."""
        return hashlib.sha256(self.raw).hexdigest()[:_ID_DIGITS]

    def __str__(self) -> str:
        return _PREFIX + base64.b64encode(self.raw).decode()

    def signed(self, message: bytes, signature: bytes) -> bool:
        """Whether the signature of the message is this key's (RFC 8032)."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except InvalidSignature:
            return False
        return True


def parse_public(text: str) -> PublicKey:
    """A public key from its text; BadInputError when it is none."""
    try:
        raw = base64.b64decode(text.strip().removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != 32 or not text.strip().startswith(_PREFIX):
        raise BadInputError(
            f"{text[:60]!r} is no public key.", remedy="Take the line that `dayzero keys show` prints on the node that signs."
        )
    return PublicKey(raw)


@dataclass(frozen=True, slots=True)
class PrivateKey:
    """A key that signs; it never shows itself."""

    _key: Ed25519PrivateKey

    @property
    def public(self) -> PublicKey:
        """Its public half."""
        return PublicKey(self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    def sign(self, message: bytes) -> bytes:
        """The signature of a message."""
        return self._key.sign(message)

    def __repr__(self) -> str:
        return f"PrivateKey({self.public.id})"


def make_key(path: Path) -> PrivateKey:
    """A new key in a new file that only its owner reads; BadInputError when the file is there: no key is ever overwritten."""
    key = Ed25519PrivateKey.generate()
    content = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with refusals_spoken(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileExistsError as error:
            raise BadInputError(
                f"{path} is there already; a key is not overwritten.",
                remedy="Show it (`dayzero keys show`), or move it away.",
            ) from error
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    return PrivateKey(key)


def read_key(path: Path) -> PrivateKey:
    """The key of a file. NotFoundError: there is none. BadInputError: others may read it, or it is no Ed25519 key."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no key in {path}.", remedy=_MAKE_ONE) from error
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror}.") from error
    with os.fdopen(descriptor, "rb") as stream:
        if stat.S_IMODE(os.fstat(stream.fileno()).st_mode) & 0o077:
            raise BadInputError(f"others than its owner have access to {path}.", remedy=f"chmod 600 {path}")
        content = stream.read(_LARGEST_KEY_BYTES)
    try:
        key = load_pem_private_key(content, None)
    except (ValueError, TypeError) as error:
        raise BadInputError(f"{path} holds no private key without a password.", remedy=_MAKE_ONE) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise BadInputError(f"{path} holds a key of another kind than Ed25519.", remedy=_MAKE_ONE)
    return PrivateKey(key)
