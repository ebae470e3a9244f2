"""All parts of the store on one database, under a clock that moves only when told to."""

from pathlib import Path

from sqlalchemy import Engine, text

from dayzero.adapters.store.artifacts import FolderArtifacts
from dayzero.adapters.store.catalog import SqlCatalog
from dayzero.adapters.store.compatibility import SqlCompatibilityList
from dayzero.adapters.store.ledger import SqlLedger
from dayzero.adapters.store.watch_book import SqlWatchBook
from dayzero.domain.adaptation import Lease
from dayzero.domain.release import Release
from store_nouns import SteppedClock, release


class Store:
    """The parts; scenes of their own add what they need to them."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        self.clock = SteppedClock()
        self.ledger = SqlLedger(engine, self.clock, FolderArtifacts(folder))
        self.watch = SqlWatchBook(engine, self.clock)
        self.catalog = SqlCatalog(engine, self.clock)
        self.list = SqlCompatibilityList(engine, self.clock)

    def events(self) -> list[str]:
        """Kinds of the events that were written, in order."""
        with self.engine.connect() as connection:
            kinds = connection.execute(text("SELECT kind FROM outbox ORDER BY seq")).scalars()
            return [kind.removeprefix("dayzero.") for kind in kinds]

    def adapt(self, what: Release | None = None, platforms: tuple[str, ...] = ("cpu",)) -> Lease:
        """Record a release and claim its adaptation."""
        (made,) = self.watch.record_release(what or release(), platforms).adaptations
        return self.ledger.claim(made, 1, "run")
