"""Which Unix account the embedded server runs as: our own, or (PostgreSQL refuses root) one of its own."""

import os
import pwd
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from dayzero.errors import DependencyError

ACCOUNT = "embedded_postgres"
_ACL = "system.posix_acl_access"
_ACL_VERSION = 2
_USER_OBJ, _USER, _GROUP_OBJ, _GROUP, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
_NO_ID = 0xFFFFFFFF
_SEARCH = 0o1


@dataclass(frozen=True, slots=True)
class ServerAccount:
    """The account's ids; `switch` says whether processes must change to it."""

    uid: int
    gid: int
    switch: bool


def server_account() -> ServerAccount:
    """Our own account, or for root the account `embedded_postgres`, made when it is missing; DependencyError."""
    if os.geteuid() != 0:
        return ServerAccount(os.geteuid(), os.getegid(), switch=False)
    try:
        entry = pwd.getpwnam(ACCOUNT)
    except KeyError:
        entry = _make_account()
    return ServerAccount(entry.pw_uid, entry.pw_gid, switch=True)


def _make_account() -> pwd.struct_passwd:
    command = ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", ACCOUNT]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        raise DependencyError(
            f"PostgreSQL does not run as root, and the account {ACCOUNT} could not be made: {said.strip()}.",
            remedy="Run dayzero as an ordinary user, or set DAYZERO_DATABASE_URL to a server that runs.",
        ) from error
    return pwd.getpwnam(ACCOUNT)


def let_through(path: Path, account: ServerAccount) -> None:
    """Let the account, and nobody else, pass through every folder above `path` (a POSIX ACL with search permission).

    Folders that everybody may pass stay as they are. DependencyError where the file system knows no ACLs.
    """
    if not account.switch:
        return
    for folder in path.resolve().parents:
        status = folder.stat()
        if status.st_mode & _SEARCH or status.st_uid == account.uid:
            continue
        try:
            os.setxattr(folder, _ACL, _with_search(_entries(folder, status.st_mode), account.uid))
        except OSError as error:
            raise DependencyError(
                f"the database server's account {ACCOUNT} cannot reach {path}: {folder} is closed to it ({error.strerror}).",
                remedy="Choose a data folder that it can reach (DAYZERO_DATA_DIR), or run dayzero as an ordinary user.",
            ) from error


def _entries(folder: Path, mode: int) -> dict[tuple[int, int], int]:
    """The folder's ACL as (tag, id) → permission bits; made from the mode where it has none (acl(5))."""
    try:
        raw = os.getxattr(folder, _ACL)
    except OSError:
        return {(_USER_OBJ, _NO_ID): mode >> 6 & 7, (_GROUP_OBJ, _NO_ID): mode >> 3 & 7, (_OTHER, _NO_ID): mode & 7}
    return {(tag, owner): bits for tag, bits, owner in struct.iter_unpack("<HHI", raw[4:])}


def _with_search(entries: dict[tuple[int, int], int], uid: int) -> bytes:
    entries = dict(entries)
    entries[_USER, uid] = entries.get((_USER, uid), 0) | _SEARCH
    masked = (bits for (tag, _), bits in entries.items() if tag in (_USER, _GROUP_OBJ, _GROUP))
    mask = 0
    for bits in masked:
        mask |= bits
    entries[_MASK, _NO_ID] = mask
    packed = (struct.pack("<HHI", tag, bits, owner) for (tag, owner), bits in sorted(entries.items()))
    return struct.pack("<I", _ACL_VERSION) + b"".join(packed)
