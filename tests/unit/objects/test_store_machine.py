"""References, pins, eviction and kills in any order: nothing referenced is lost, nothing pinned goes, the limit holds."""

import hashlib
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dayzero.adapters.objects.checking import check_store
from dayzero.adapters.objects.store import ObjectStore
from dayzero.domain.release import Release
from dayzero.errors import BlockedError, UnavailableError
from dayzero.ports.hub import Hub
from memory_hub import MemoryHub, release_of

LIMIT_BYTES = 20_000
BLOBS = {f"part-{number}.safetensors": bytes([number]) * (1500 * number + 7) for number in range(1, 6)}


def releases() -> dict[str, dict[str, bytes]]:
    """Five repositories; some share weights, one of them under another name."""
    parts = list(BLOBS)
    made = {
        f"acme/m{number}": {"config.json": b'{"n": %d}' % number, **{name: BLOBS[name] for name in parts[number : number + 2]}}
        for number in range(4)
    }
    made["acme/m4"] = {"config.json": b'{"n": 0}', "other.safetensors": BLOBS[parts[0]], parts[4]: BLOBS[parts[4]]}
    return made


REPOSITORIES = releases()
NAMES = st.sampled_from(sorted(REPOSITORIES))


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.place = tempfile.TemporaryDirectory()
        self.told: list[str] = []
        self.store = self.opened()
        self.hub = MemoryHub()
        self.known: dict[str, Release] = {}
        for name, files in REPOSITORIES.items():
            self.known[name] = release_of(files, name)
            self.hub.publish(self.known[name], files)
        self.pins: dict[str, ExitStack] = {}
        self.complete: set[str] = set()

    def opened(self) -> ObjectStore:
        return ObjectStore(Path(self.place.name) / "store", LIMIT_BYTES, self.told.append)

    def teardown(self) -> None:
        for pin in self.pins.values():
            pin.close()
        self.place.cleanup()

    def names_gone(self) -> set[str]:
        there = {one.content_id for one in self.store.releases()}
        return {name for name in self.complete if self.known[name].content_id not in there}

    @rule(name=NAMES, breaks=st.none() | st.integers(0, 5000))
    def fetch(self, name: str, breaks: int | None) -> None:
        release, before = self.known[name], self.hub.sent_bytes
        self.hub.breaks_after_bytes = breaks
        pinned = {self.known[one].content_id for one in self.pins}
        there = {one.content_id for one in self.store.releases()}
        try:
            with self.store.taking(release, release.files) as evicted:
                assert not {gone.content_id for gone in evicted} & (pinned | {release.content_id})
                self.complete -= self.names_gone()
                for file in release.files:
                    place = self.store.obtain(cast("Hub", self.hub), release, file)
                    assert hashlib.sha256(place.read_bytes()).hexdigest() == place.name
            self.complete.add(name)
        except UnavailableError:
            pass
        except BlockedError as refused:
            assert self.hub.sent_bytes == before, "refused before the first byte"
            assert f"{LIMIT_BYTES:,}" in str(refused)
            assert {one.content_id for one in self.store.releases()} == there, "nothing went for a fetch that was refused"

    @rule(name=NAMES)
    def pin(self, name: str) -> None:
        if name in self.complete and name not in self.pins:
            self.pins[name] = ExitStack()
            self.pins[name].enter_context(self.store.pinned(self.known[name].content_id))

    @precondition(lambda self: self.pins)
    @rule(data=st.data())
    def unpin(self, data: st.DataObject) -> None:
        self.pins.pop(data.draw(st.sampled_from(sorted(self.pins)))).close()

    @rule(name=NAMES)
    def evict(self, name: str) -> None:
        content_id = self.known[name].content_id
        if content_id not in {one.content_id for one in self.store.releases()}:
            return
        gone = self.store.evict([content_id], "asked")
        assert bool(gone) == (name not in self.pins)
        if gone:
            self.complete.discard(name)

    @rule()
    def sweep(self) -> None:
        self.store.sweep()
        assert self.store.use().unreferenced_bytes == 0

    @rule(name=NAMES)
    def lose_a_reference_as_a_kill_would(self, name: str) -> None:
        content_id = self.known[name].content_id
        if name not in self.pins and content_id in {one.content_id for one in self.store.releases()}:
            self.store.references.remove(content_id)
            self.complete.discard(name)

    @rule()
    def restart(self) -> None:
        self.store = self.opened()

    @invariant()
    def nothing_is_lost(self) -> None:
        there = {one.content_id: one for one in self.store.releases()}
        for name in self.complete:
            release = self.known[name]
            for file in release.files:
                held = there[release.content_id].object_of(file)
                assert held is not None and self.store.object(held) is not None
        for one in there.values():
            assert all(self.store.object(held) is not None for held in one.objects.values())

    @invariant()
    def the_limit_holds(self) -> None:
        assert self.store.use().used_bytes <= LIMIT_BYTES

    @invariant()
    def bytes_are_what_names_say(self) -> None:
        assert check_store(self.store).damaged == ()


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
