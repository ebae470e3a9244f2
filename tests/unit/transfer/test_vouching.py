"""Signed records of a site: what is believed, and what is refused with which reason."""

import base64
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.adapters.signing.keys import make_key, parse_public, read_key
from dayzero.adapters.signing.records import open_record, sign
from dayzero.codec import dump, load
from dayzero.domain.planning import Degrees
from dayzero.domain.release import FileRole, HubKind, Release, ReleaseStage, RepoFile
from dayzero.domain.shards import ShardFile, ShardManifest, ShardSource, ShardTensor, WeightsState
from dayzero.domain.vouching import ShardStatement, SignedRecord
from dayzero.errors import BadInputError, IntegrityError, NotFoundError
from dayzero.stages.transfer.vouching import refusal, statement_of

SHA = "a" * 64
RELEASE = Release(
    HubKind.HUGGING_FACE, "org/model", "0" * 40, ReleaseStage.WEIGHTS,
    (RepoFile("model.safetensors", 100, FileRole.WEIGHTS, sha256=SHA),), "content",
)  # fmt: skip
TENSOR = ShardTensor("a", "BF16", (1,), None, 0, 0, "model.safetensors", 8, 10)
MANIFEST = ShardManifest(
    "content",
    Degrees(tp=2),
    tuple(ShardFile(rank, f"rank-{rank}", 10, "d", (TENSOR,)) for rank in (0, 1)),
    sources=(ShardSource("model.safetensors", 100, SHA, True),),
)
STATEMENT = statement_of(MANIFEST, ("b" * 64, "c" * 64))


def test_a_record_is_opened_with_its_key_alone(tmp_path: Path) -> None:
    key, other = make_key(tmp_path / "one.pem"), make_key(tmp_path / "two.pem")
    content = dump(sign(STATEMENT, key))
    trusted = [parse_public(str(one.public)) for one in (other, key)]
    assert open_record(content, trusted) == (STATEMENT, key.public.id)
    for few in ([], [other.public]):
        with pytest.raises(IntegrityError, match=f"the key {key.public.id}, which is not one of DAYZERO_TRUSTED_KEYS"):
            open_record(content, few)


def test_nothing_of_a_record_can_be_changed(tmp_path: Path) -> None:
    key, other = make_key(tmp_path / "one.pem"), make_key(tmp_path / "two.pem")
    record = sign(STATEMENT, key)
    forged = [
        replace(record, statement=record.statement.replace("b" * 64, "e" * 64)),
        replace(record, statement=record.statement + " "),
        replace(record, signature=sign(STATEMENT, other).signature),
        replace(record, signature=base64.b64encode(bytes(64)).decode()),
        replace(record, signature=""),
        replace(sign(STATEMENT, other), key_id=key.public.id),
    ]
    for one in forged:
        with pytest.raises(IntegrityError, match=f"not that of the key {key.public.id}"):
            open_record(dump(one), [key.public])
    with pytest.raises(BadInputError, match="no base64"):
        open_record(dump(replace(record, signature="?")), [key.public])
    signature = key.sign(record.statement.encode())
    bare = replace(record, signature=base64.b64encode(signature).decode())
    with pytest.raises(IntegrityError, match="not that of the key"):
        open_record(dump(bare), [key.public])


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_noise_is_no_record(noise: bytes) -> None:
    with pytest.raises((BadInputError, IntegrityError)):
        open_record(noise, [])
    with pytest.raises((BadInputError, IntegrityError)):
        open_record(dump(SignedRecord(noise.decode("latin-1"), "0" * 16, "")), [])


REFUSED = [
    ({"content_id": "other"}, "about the content other, and the release is content"),
    ({"degrees": Degrees(tp=4)}, "about tp4"),
    ({"redundant_experts": 2}, "with 2 redundant experts"),
    ({"schema": "dayzero.shards-statement/9"}, "is a 'dayzero.shards-statement/9'"),
    ({"sources": ()}, "does not say that model.safetensors passed"),
    ({"sources": (ShardSource("model.safetensors", 100, None, False),)}, "passed unchecked"),
    ({"sources": (ShardSource("model.safetensors", 100, "f" * 64, True),)}, "of another release: model.safetensors has"),
    ({"files": STATEMENT.files[:1]}, "says nothing of rank-1"),
    ({"files": (replace(STATEMENT.files[0], size_bytes=11), STATEMENT.files[1])}, "rank-0 has 11 bytes there, and 10"),
]


@pytest.mark.parametrize("changes, says", REFUSED, ids=[one[1] for one in REFUSED])
def test_a_statement_about_something_else_is_refused(changes: dict[str, object], says: str) -> None:
    assert refusal(STATEMENT, RELEASE, MANIFEST) is None
    why = refusal(replace(STATEMENT, **changes), RELEASE, MANIFEST)
    assert why is not None and says in why


def test_a_hub_that_states_no_digest_gives_nothing_to_compare() -> None:
    blind = replace(RELEASE, files=(replace(RELEASE.files[0], sha256=None),))
    assert "states no digest" in (refusal(STATEMENT, blind, MANIFEST) or "")


def test_a_node_needs_a_record_of_its_own_ranks_only() -> None:
    mine = replace(MANIFEST, files=MANIFEST.files[1:])
    assert refusal(replace(STATEMENT, files=STATEMENT.files[1:]), RELEASE, mine) is None


def test_only_who_hashed_signs() -> None:
    vouched = replace(MANIFEST, vouched_by="0" * 16)
    unchecked = replace(MANIFEST, sources=(replace(MANIFEST.sources[0], verified=False),))
    assert (MANIFEST.state, vouched.state, unchecked.state) == tuple(WeightsState)
    for one, says in ((vouched, "are vouched"), (unchecked, "are unverified"), (replace(MANIFEST, sources=()), "unverified")):
        with pytest.raises(BadInputError, match=says):
            statement_of(one, ("", ""))


def test_a_key_lies_where_its_owner_alone_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "signing.pem"
    with pytest.raises(NotFoundError, match="dayzero keys new"):
        read_key(path)
    key = make_key(path)
    assert path.stat().st_mode & 0o777 == 0o600 and read_key(path).public == key.public
    assert key.public.id in repr(key) and "PRIVATE" not in repr(key)
    with pytest.raises(BadInputError, match="not overwritten"):
        make_key(path)
    path.chmod(0o640)
    with pytest.raises(BadInputError, match="chmod 600"):
        read_key(path)
    path.chmod(0o600)
    path.write_bytes(b"no key")
    with pytest.raises(BadInputError, match="holds no private key"):
        read_key(path)


@pytest.mark.parametrize("text", ["", "ed25519:", "ed25519:AAAA", "ssh-ed25519 AAAA", "ed25519:" + "A" * 400, "\ud800"])
def test_other_texts_are_no_public_key(text: str) -> None:
    with pytest.raises(BadInputError, match="is no public key"):
        parse_public(text)


def test_a_statement_comes_back_from_its_text() -> None:
    assert load(ShardStatement, dump(STATEMENT)) == STATEMENT
