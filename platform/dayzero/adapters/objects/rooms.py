"""Room in a store: what it holds, what it lets go for another release, and sweeping what nobody refers to."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dayzero.adapters.objects.folder import StoreFolder
from dayzero.adapters.objects.references import References
from dayzero.disk import require_space
from dayzero.domain.stored import Evicted, Keep, RoomPlan, StoredRelease, StoreUse, Swept
from dayzero.errors import BlockedError
from dayzero.stages.retention.eviction import plan_room

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Account:
    """Bytes that count against the limit before a release comes, what it needs beside them, and what nobody would miss."""

    keeps: tuple[Keep, ...]
    used_bytes: int
    needed_bytes: int
    download_bytes: int
    loose: Mapping[str, int]
    abandoned: Mapping[str, int]

    @property
    def spare_bytes(self) -> int:
        """Bytes of loose objects and abandoned downloads."""
        return sum(self.loose.values()) + sum(self.abandoned.values())


class Rooms:
    """Accounts of one store. Every method that takes something away is called by whoever is alone (`changing`)."""

    def __init__(self, folder: StoreFolder, references: References, limit_bytes: int | None, tell: Tell) -> None:
        self._folder, self._references, self._limit_bytes, self._tell = folder, references, limit_bytes, tell

    def use(self) -> StoreUse:
        """What is there now."""
        sizes, references = self._folder.sizes(), self._references.all()
        loose = self._loose(sizes, references)
        return StoreUse(
            object_count=len(sizes),
            object_bytes=sum(sizes.values()),
            partial_bytes=sum(self._folder.partial_sizes().values()),
            unreferenced_bytes=sum(sizes[name] for name in loose),
            release_count=len(references),
            limit_bytes=self._limit_bytes,
        )

    def keeps(self, references: Sequence[StoredRelease], sizes: Mapping[str, int]) -> tuple[Keep, ...]:
        """Each release as its eviction sees it; pinned is what somebody uses at this moment."""
        return tuple(
            Keep(
                one.content_id,
                {name: sizes.get(name, 0) for name in one.objects.values()},
                self._references.used_at_s(one.content_id),
                self.is_pinned(one.content_id),
            )
            for one in references
        )

    def is_pinned(self, content_id: str) -> bool:
        """Whether somebody uses it at this moment."""
        with self._folder.unpinned(content_id) as free:
            return not free

    def make(self, coming: StoredRelease) -> tuple[Evicted, ...]:
        """Keep the reference (its content is pinned by whoever asks), and make room for what it still lacks: loose objects and
        abandoned downloads go first, then releases, the least recently used first.

        BlockedError with the numbers where it cannot fit, DependencyError where the disk is too full: then nothing was changed.
        (A victim that somebody pins at the last moment may leave earlier ones gone.)
        """
        account, plan = self._planned(coming)
        # Before anything goes: what the release has of the others' objects must not go with them.
        self._references.write(coming)
        evicted: list[Evicted] = []
        while plan is not None:
            self._sweep(account.loose, account.abandoned)
            why = f"{account.needed_bytes:,} bytes for {coming.names[-1]} under the limit of {self._limit_bytes:,}"
            evicted += [gone for victim in plan.victims if (gone := self.evict(victim, why)) is not None]
            account, plan = self._planned(coming)
        return tuple(evicted)

    def _planned(self, coming: StoredRelease) -> tuple[_Account, RoomPlan | None]:
        """What there is, and how room is made in it; None: nothing has to go. Errors: see make."""
        account, plan, freed = self._account(coming), None, 0
        if self._limit_bytes is not None and account.used_bytes + account.needed_bytes > self._limit_bytes:
            plan = plan_room(account.keeps, account.used_bytes - account.spare_bytes, account.needed_bytes, self._limit_bytes)
            freed = plan.freed_bytes + account.spare_bytes
            if plan.lacking_bytes:
                raise self._refused(coming, account, plan)
        require_space(self._folder.objects, account.download_bytes - freed, f"storing {coming.names[-1]}")
        return account, plan

    def evict(self, content_id: str, why: str) -> Evicted | None:
        """Let a release go, with the objects that nobody else refers to; None when it is pinned, and stays."""
        reference = self._references.find(content_id)
        if reference is None:
            return None
        with self._folder.unpinned(content_id) as free:
            if not free:
                return None
            others = [one for one in self._references.all() if one.content_id != content_id]
            sizes = self._folder.sizes()
            used_at_s = self._references.used_at_s(content_id)
            leaving = Keep(content_id, {name: sizes.get(name, 0) for name in reference.objects.values()}, used_at_s)
            kept = {name for one in others for name in one.objects.values()}
            # The reference first: a kill here leaves objects that nobody refers to, never a reference to what is gone.
            self._references.remove(content_id)
            self._folder.remove(self._folder.model(content_id))
            for name in leaving.objects.keys() - kept:
                self._folder.remove(self._folder.object(name))
            self._folder.forget_pin(content_id)
        freed = sum(size for name, size in leaving.objects.items() if name not in kept)
        gone = Evicted(content_id, reference.names, freed, used_at_s, why)
        self._tell(f"Evicted {', '.join(gone.names)} ({content_id[:12]}), {freed:,} bytes: {why}.")
        return gone

    def sweep(self) -> Swept:
        """Take away objects without a reference, and downloads that no reference asks for and nobody works on."""
        references, sizes = self._references.all(), self._folder.sizes()
        loose = self._loose(sizes, references)
        wanted = {stated for one in references for stated in one.missing}
        abandoned = [stated for stated in self._folder.partial_sizes() if stated not in wanted]
        swept = self._sweep({name: sizes[name] for name in loose}, abandoned)
        for view in self._folder.models.glob("*"):
            if view.name not in {one.content_id for one in references}:
                self._folder.remove(view)
        return swept

    def _sweep(self, loose: Mapping[str, int], abandoned: Iterable[str]) -> Swept:
        freed = sum(loose.values())
        for name in loose:
            self._folder.remove(self._folder.object(name))
        partial = self._folder.partial_sizes()
        for stated in abandoned:
            with self._folder.unworked_download(stated) as free:
                if free:
                    self._folder.remove(self._folder.arriving(stated))
                    freed += partial.get(stated, 0)
        return Swept(len(loose), freed)

    def _loose(self, sizes: Mapping[str, int], references: Sequence[StoredRelease]) -> set[str]:
        return sizes.keys() - {name for one in references for name in one.objects.values()}

    def _account(self, coming: StoredRelease) -> _Account:
        sizes, partial, references = self._folder.sizes(), self._folder.partial_sizes(), self._references.all()
        others = [one for one in references if one.content_id != coming.content_id]
        keeps = self.keeps(others, sizes)
        own = Keep(coming.content_id, {name: sizes.get(name, 0) for name in coming.objects.values()}, 0.0, pinned=True)
        # What other fetches were promised is theirs, though it is not here yet.
        pinned = {keep.content_id for keep in keeps if keep.pinned}
        promised = {
            stated: one.sizes.get(stated, 0)
            for one in others
            if one.content_id in pinned
            for stated in one.missing
            if stated not in sizes
        }
        mine = {stated: coming.sizes.get(stated, 0) for stated in coming.missing}
        needed = {stated: size for stated, size in mine.items() if stated not in promised}
        loose = {name: sizes[name] for name in self._loose(sizes, [*others, coming]) if name not in coming.missing}
        abandoned = {stated: size for stated, size in partial.items() if stated not in promised and stated not in mine}
        return _Account(
            keeps=(*keeps, own),
            used_bytes=sum(sizes.values()) + sum(promised.values()) + sum(abandoned.values()),
            needed_bytes=sum(needed.values()),
            download_bytes=sum(max(0, size - partial.get(stated, 0)) for stated, size in mine.items()),
            loose=loose,
            abandoned=abandoned,
        )

    def _refused(self, coming: StoredRelease, account: _Account, plan: RoomPlan) -> BlockedError:
        return BlockedError(
            f"{coming.names[-1]} needs {account.needed_bytes:,} bytes more in the store {self._folder.root}, which holds"
            f" {account.used_bytes:,} of at most {self._limit_bytes:,}; {plan.pinned_bytes:,} of them are in use, and"
            f" {plan.lacking_bytes:,} bytes are lacking even if all else goes.",
            remedy="Raise DAYZERO_STORE_LIMIT_BYTES, or let what is in use end.",
        )
