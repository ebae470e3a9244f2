"""The wiring of the control plane: settings and the database become a plane."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from ipaddress import ip_address

from dayzero.adapters.host.clock import SystemClock
from dayzero.adapters.notify.choose import ChosenNotifier
from dayzero.adapters.notify.networks import parse_networks
from dayzero.adapters.profiles.load import load_profiles
from dayzero.adapters.store.access import SqlAccess
from dayzero.adapters.store.ageing import SqlAgeingBook
from dayzero.adapters.store.artifacts import FolderArtifacts
from dayzero.adapters.store.catalog import SqlCatalog
from dayzero.adapters.store.compatibility import SqlCompatibilityList
from dayzero.adapters.store.connection import open_engine
from dayzero.adapters.store.embargoes import SqlEmbargoes
from dayzero.adapters.store.embedded import has_database, running
from dayzero.adapters.store.event_feed import SqlEventFeed
from dayzero.adapters.store.failures import SqlFailureMemory
from dayzero.adapters.store.ledger import SqlLedger
from dayzero.adapters.store.migrate import upgrade
from dayzero.adapters.store.outbox import SqlOutbox
from dayzero.adapters.store.reading import SqlReading
from dayzero.adapters.store.reports import SqlReports
from dayzero.adapters.store.sessions import SqlSessions
from dayzero.adapters.store.subscribers import SqlSubscribers
from dayzero.adapters.store.watch_book import SqlWatchBook
from dayzero.adapters.store.workforce import SqlWorkforce
from dayzero.adapters.vault.fernet import FernetVault
from dayzero.adapters.vault.links import SignedLinks
from dayzero.app.benches import bench_on
from dayzero.domain.access import ANYONE, OPERATOR
from dayzero.domain.platforms import PlatformProfile
from dayzero.ports.access import Access, Embargoes, Sessions
from dayzero.ports.ageing import AgeingBook
from dayzero.ports.catalog import Catalog, CompatibilityList, Outbox, Subscribers, WatchBook, Workforce
from dayzero.ports.failures import FailureMemory
from dayzero.ports.hub import ArtifactStore
from dayzero.ports.ledger import Ledger
from dayzero.ports.reading import Reading
from dayzero.ports.reports import Reports
from dayzero.ports.running import Clock
from dayzero.ports.telling import EventFeed, Links, Notifier
from dayzero.settings import Settings
from dayzero.steps.contract import Bench
from dayzero.steps.subscribing import Doors


@dataclass(frozen=True, slots=True)
class Plane:
    """The control plane: everything that needs the database."""

    settings: Settings
    clock: Clock
    ledger: Ledger
    catalog: Catalog
    watchbook: WatchBook
    outbox: Outbox
    subscribers: Subscribers
    notifier: Notifier
    links: Links
    feed: EventFeed
    compatibility: CompatibilityList
    reading: Reading
    ageing: AgeingBook
    failures: FailureMemory
    workforce: Workforce
    access: Access
    sessions: Sessions
    embargoes: Embargoes
    reports: Reports
    artifacts: ArtifactStore
    profiles: Mapping[str, PlatformProfile]

    @property
    def doors(self) -> Doors:
        """What subscribing needs."""
        return Doors(self.subscribers, self.notifier, self.access, self.links)


def reading_is_open(settings: Settings) -> bool:
    """Whether people read the list without a token: as the settings say, else where only this host can ask."""
    if settings.open_reading is not None:
        return settings.open_reading
    if settings.host == "localhost":
        return True
    try:
        return ip_address(settings.host).is_loopback
    except ValueError:
        return False


def vault_of(settings: Settings) -> FernetVault:
    """What locks the addresses and secrets of subscribers."""
    return FernetVault(settings.secrets_key or settings.data_dir / "keys" / "subscribers.key")


def public_url_of(settings: Settings) -> str:
    """The address that others know the door by."""
    if settings.public_url is not None:
        return settings.public_url.rstrip("/")
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{settings.port}"


def _database_exists(settings: Settings) -> bool:
    """Whether there is a database to ask: a configured server, or an embedded one that was made before."""
    return settings.database_url is not None or has_database(settings.data_dir)


@contextmanager
def database_url(settings: Settings) -> Iterator[str]:
    """The URL of the database: the configured server, or the embedded one, kept running meanwhile."""
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value()
        return
    with running(settings.data_dir) as url:
        yield url


@contextmanager
def control_plane(settings: Settings) -> Iterator[Plane]:
    """The control plane on its database, migrated to the schema that this version needs."""
    with database_url(settings) as url:
        upgrade(url)
        engine, reader = open_engine(url), open_engine(url, reading=True)
        clock = SystemClock()
        artifacts = FolderArtifacts(settings.data_dir / "artifacts")
        vault = vault_of(settings)
        links = SignedLinks(settings.data_dir / "keys" / "links.key", public_url_of(settings))
        notifier = ChosenNotifier(parse_networks(settings.subscriber_networks), leave_url=links.leave_url)
        try:
            yield Plane(
                settings=settings,
                clock=clock,
                ledger=SqlLedger(engine, clock, artifacts),
                catalog=SqlCatalog(engine, clock),
                watchbook=SqlWatchBook(engine, clock),
                outbox=SqlOutbox(engine, clock, vault),
                subscribers=SqlSubscribers(engine, clock, vault),
                notifier=notifier,
                links=links,
                feed=SqlEventFeed(reader, clock),
                compatibility=SqlCompatibilityList(engine, clock),
                reading=SqlReading(reader, clock, OPERATOR, settings.day_zero_target_s),
                ageing=SqlAgeingBook(engine, clock),
                failures=SqlFailureMemory(engine, clock),
                workforce=SqlWorkforce(engine, clock),
                access=SqlAccess(engine, clock),
                sessions=SqlSessions(engine, clock),
                embargoes=SqlEmbargoes(engine, clock),
                reports=SqlReports(engine, clock),
                artifacts=artifacts,
                profiles=load_profiles(settings.platforms_dir),
            )
        finally:
            reader.dispose()
            notifier.close()
            engine.dispose()


@contextmanager
def recorded_plane(settings: Settings) -> Iterator[Plane | None]:
    """The control plane where there is a database; None where nothing was recorded yet."""
    if not _database_exists(settings):
        yield None
        return
    with control_plane(settings) as plane:
        yield plane


def control_bench(plane: Plane) -> Bench:
    """The bench of the control plane's own steps; what it foretells stands in entries, so it knows what anybody may see."""
    return replace(bench_on(plane.ledger, plane.settings), known_failures=plane.failures.seen_by(ANYONE).known)
