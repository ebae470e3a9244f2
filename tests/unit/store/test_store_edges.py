"""What the store does at its edges, without a database."""

import hashlib
import io
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.adapters.store import server_account
from dayzero.adapters.store.artifacts import FolderArtifacts
from dayzero.adapters.store.column_types import clean_json, clean_text
from dayzero.adapters.store.limits import log_line
from dayzero.adapters.store.migrate import migrations_folder
from dayzero.adapters.store.models import model_name
from dayzero.domain.columns import COMPATIBILITY_COLUMNS, EVENT_COLUMNS, ROLLUP_COLUMNS
from dayzero.domain.release import HubKind
from dayzero.errors import DependencyError, NotFoundError
from store_nouns import release


@given(st.text(st.characters(exclude_categories=())))
def test_clean_text_fits_a_database_and_changes_no_more(text: str) -> None:
    cleaned = clean_text(text)
    cleaned.encode()
    assert "\x00" not in cleaned and len(cleaned) == len(text)
    kept = [(old, new) for old, new in zip(text, cleaned, strict=True) if old != "\x00" and not "\ud800" <= old <= "\udfff"]
    assert all(old == new for old, new in kept)


def test_clean_json_reaches_every_string() -> None:
    assert clean_json({"a\x00": ["\x00", {"b": "\x00"}, 1, None]}) == {"a\ufffd": ["\ufffd", {"b": "\ufffd"}, 1, None]}


def test_long_lines_say_what_was_cut() -> None:
    assert log_line("short") == "short"
    assert log_line("x" * 20_000).endswith("more characters]")


def test_artifacts_are_one_file_a_content(tmp_path: Path) -> None:
    store = FolderArtifacts(tmp_path / "artifacts")
    sha256 = store.put(b"bytes", media_type="text/plain", name="a")
    assert store.put(io.BytesIO(b"bytes"), media_type="text/plain", name="b") == sha256 == hashlib.sha256(b"bytes").hexdigest()
    assert [path.name for path in (tmp_path / "artifacts").rglob("*") if path.is_file()] == [sha256]
    with store.open(sha256) as file:
        assert file.read() == b"bytes"
    for name in ("..", "a" * 63, "A" * 64, "/etc/passwd"):
        with pytest.raises(NotFoundError):
            store.open(name)


def test_artifacts_on_a_disk_that_refuses(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DependencyError, match="cannot be written"):
        FolderArtifacts(tmp_path / "file").put(b"x", media_type="text/plain", name="x")


@pytest.mark.parametrize(
    ("hub", "location", "name"),
    [
        (HubKind.HUGGING_FACE, "org/model", "org/model"),
        (HubKind.DIRECTORY, "/models/smol", "smol"),
        (HubKind.CONFIG, "/announced/next-model/config.json", "next-model"),
        (HubKind.CONFIG, "/announced/next-model.json", "next-model"),
        (HubKind.DIRECTORY, "/", "/"),
    ],
)
def test_model_names(hub: HubKind, location: str, name: str) -> None:
    assert model_name(release(hub=hub, repo_id=location)) == name


def test_the_migrations_are_found() -> None:
    assert sorted(path.name for path in (migrations_folder() / "versions").glob("0001*.py"))


@pytest.mark.parametrize("columns", [COMPATIBILITY_COLUMNS, ROLLUP_COLUMNS, EVENT_COLUMNS])
def test_columns_are_named_once(columns) -> None:
    names = [column.name for column in columns]
    assert len(set(names)) == len(names) and all(column.meaning for column in columns)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes accounts")
def test_letting_an_account_through_lets_no_other(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    account = server_account.ServerAccount(uid=54321, gid=54321, switch=True)
    for _ in range(2):
        server_account.let_through(closed / "data", account)
        entries = server_account._entries(closed, closed.stat().st_mode)
        assert entries[server_account._USER, 54321] == 1
        assert entries[server_account._OTHER, server_account._NO_ID] == 0
        assert closed.stat().st_mode & stat.S_IRWXO == 0
