"""Commands about subscribers."""

import re
from datetime import UTC, datetime
from typing import Annotated
from uuid import uuid4

import typer

from dayzero import app as house
from dayzero.adapters.notify.choose import new_secret
from dayzero.cli.opening import only_one, open_plane
from dayzero.cli.output import print_document, print_line, print_table
from dayzero.domain.access import ANYONE, Viewer
from dayzero.domain.canonical import Json, plain
from dayzero.domain.events import Event, EventKind
from dayzero.domain.subscriptions import Channel, Delivery, Manner, Subscription
from dayzero.errors import BadInputError
from dayzero.ports.catalog import Subscribers
from dayzero.stages.telling.quiet import read_quiet
from dayzero.stages.telling.showing import shown_subscription, shown_target

app = typer.Typer(help="Who is told when something changes, over webhooks, chat or mail.", no_args_is_help=True)
SCHEMA = "dayzero.subscriptions/1"
DEAD_SCHEMA = "dayzero.dead-letters/1"
MINUTE_S = 60
Json_ = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Id = Annotated[str, typer.Argument(help="Id of a subscription, or its beginning.")]
MaybeId = Annotated[str | None, typer.Argument(help="Id of a subscription, or its beginning; all of them without it.")]


@app.command()
def add(
    context: typer.Context,
    target: Annotated[str, typer.Argument(help="https://host/path, or an Apprise URL for chat and mail.")],
    filter_: Annotated[
        str, typer.Option("--filter", help='Such as: event = "dayzero.entry.changed" and platform = "cpu"')
    ] = "",
    channel: Annotated[Channel | None, typer.Option(help="Default: webhook for http(s), else apprise.")] = None,
    secret: Annotated[str | None, typer.Option(help="Secret that signs webhooks (whsec_…); default: a fresh one.")] = None,
    digest_minutes: Annotated[
        int | None, typer.Option(help="One message in so many minutes instead of one an event.", min=1, max=7 * 24 * 60)
    ] = None,
    quiet: Annotated[str | None, typer.Option(help="Hours without messages: '22:00-07:00 Europe/Berlin'")] = None,
    token: Annotated[str | None, typer.Option(help="Id of a token: tell what it sees, embargoes included.")] = None,
    json: Json_ = False,
) -> None:
    """Subscribe: from now on matching events go there. A webhook's secret is shown once, here."""
    over = channel or (Channel.WEBHOOK if re.match(r"https?://", target, re.IGNORECASE) else Channel.APPRISE)
    if over is not Channel.WEBHOOK and secret is not None:
        raise BadInputError("only webhooks are signed.", remedy="Leave out --secret.")
    manner = Manner(None if digest_minutes is None else digest_minutes * MINUTE_S, None if quiet is None else read_quiet(quiet))
    with open_plane(context) as plane:
        plane.notifier.check(over, target)
        signed_by = (secret or new_secret()) if over is Channel.WEBHOOK else None
        viewer = ANYONE
        if token is not None:
            viewer = Viewer(only_one("token", token, [one.id for one in plane.access.tokens()], "dayzero token ls"))
        made = plane.subscribers.subscribe(over, target, filter_, signed_by, viewer=viewer, manner=manner)
        plane.access.record("operator", "subscription.add", made.id, shown_target(made))
    if json:
        print_document({"schema": SCHEMA, "subscriptions": [{**shown_subscription(made), "secret": made.secret}]})
        return
    print_line(f"subscription {made.id} to {shown_target(made)}")
    if made.secret:
        print_line(f"secret (shown once; it verifies the signature): {made.secret}")


@app.command()
def ls(context: typer.Context, json: Json_ = False) -> None:
    """Every subscription, with how many deliveries are pending, delivered and dead. Secrets are not shown."""
    with open_plane(context) as plane:
        standings = plane.subscribers.standings()
        rows = [shown_subscription(one, standings.get(one.id)) for one in plane.subscribers.subscriptions()]
    if json:
        print_document({"schema": SCHEMA, "subscriptions": rows})
        return
    print_table(f"{len(rows)} subscriptions", rows)


@app.command()
def rm(context: typer.Context, subscription: Id) -> None:
    """Unsubscribe."""
    with open_plane(context) as plane:
        found = _named(plane.subscribers, subscription)
        plane.subscribers.unsubscribe(found.id)
        plane.access.record("operator", "subscription.remove", found.id, shown_target(found))
    print_line(f"subscription {found.id} is removed")


@app.command()
def test(context: typer.Context, subscription: Id, json: Json_ = False) -> None:
    """Send one test event there now (it is marked `test`); exit code 4 when it is not taken."""
    with open_plane(context) as plane:
        found = _named(plane.subscribers, subscription)
        now = datetime.now(UTC)
        event = Event(str(uuid4()), EventKind.ENTRY_CHANGED, "dayzero/test", now, {"test": 1, "model": "dayzero/test"})
        plane.notifier.deliver(found, event)
    if json:
        print_document({"schema": "dayzero.subscription-test/1", "subscription": found.id, "message": event.id, "taken": True})
        return
    print_line(f"{shown_target(found)} took message {event.id}")


@app.command()
def dead(
    context: typer.Context,
    subscription: MaybeId = None,
    limit: Annotated[int, typer.Option(help="Dead letters to show, the oldest first.", min=1, max=100_000)] = 100,
    json: Json_ = False,
) -> None:
    """Dead letters: what was tried too often, or refused for good. `replay` sends them again."""
    with open_plane(context) as plane:
        wanted = None if subscription is None else _named(plane.subscribers, subscription).id
        rows = [_letter(delivery, event) for delivery, event in plane.subscribers.dead_letters(wanted, limit)]
    if json:
        print_document({"schema": DEAD_SCHEMA, "dead_letters": rows})
        return
    print_table(f"{len(rows)} dead letters", rows)


@app.command()
def replay(
    context: typer.Context,
    subscription: MaybeId = None,
    delivery: Annotated[str | None, typer.Option(help="One dead letter, by its id or its beginning.")] = None,
    json: Json_ = False,
) -> None:
    """Send dead letters again, under the ids that they had, with as many tries as a new event has."""
    with open_plane(context) as plane:
        wanted = None if subscription is None else _named(plane.subscribers, subscription).id
        if delivery is not None:
            known = [one.id for one, _ in plane.subscribers.dead_letters(wanted, 100_000)]
            delivery = only_one("dead letter", delivery, known, "dayzero subscribe dead")
        count = plane.subscribers.replay(wanted, delivery)
        plane.access.record("operator", "subscription.replay", wanted or "all", f"{count} dead letters")
    if json:
        print_document({"schema": "dayzero.replay/1", "replayed": count})
        return
    print_line(f"{count} dead letters are tried again")


@app.command()
def rotate(
    context: typer.Context,
    subscription: MaybeId = None,
    drop_old: Annotated[bool, typer.Option("--drop-old", help="The secret before signs no more.")] = False,
    json: Json_ = False,
) -> None:
    """With an ID: a new secret for that webhook, shown once; the one before goes on signing beside it until --drop-old.

    Without: a new key that locks every address and secret in the database.
    """
    with open_plane(context) as plane:
        if subscription is None:
            if drop_old:
                raise BadInputError("--drop-old is for one subscription.", remedy="Name it.")
            count = house.rotate_key(plane)
            document: dict[str, Json] = {"schema": "dayzero.rotation/1", "locked_again": count}
            lines = [f"{count} subscriptions are locked with a new key"]
        else:
            made = _new_secret(plane.subscribers, _named(plane.subscribers, subscription), drop_old=drop_old)
            newest = (made.secret or "").split(" ")[0]
            document = {"schema": "dayzero.rotation/1", "subscription": made.id, "secret": newest}
            lines = [f"subscription {made.id} is signed with (shown once): {newest}"]
            if not drop_old:
                lines.append(f"the secret before signs beside it until `dayzero subscribe rotate {made.id[:8]} --drop-old`")
        plane.access.record("operator", "subscription.rotate", subscription or "all", "drop-old" if drop_old else "")
    if json:
        print_document(document)
        return
    for line in lines:
        print_line(line)


def _new_secret(subscribers: Subscribers, found: Subscription, *, drop_old: bool) -> Subscription:
    if found.secret is None:
        raise BadInputError("only webhooks are signed.", remedy="Name a webhook's subscription.")
    if drop_old:
        return subscribers.new_secret(found.id, found.secret.split(" ")[0], keep_old=False)
    return subscribers.new_secret(found.id, new_secret(), keep_old=True)


def _named(subscribers: Subscribers, wanted: str) -> Subscription:
    known = {one.id: one for one in subscribers.subscriptions()}
    return known[only_one("subscription", wanted, list(known), "dayzero subscribe ls")]


def _letter(delivery: Delivery, event: Event) -> dict[str, Json]:
    return {
        "id": delivery.id,
        "subscription": delivery.subscription_id,
        "event": event.kind.value,
        "event_id": event.id,
        "subject": event.subject,
        "occurred_at": plain(event.occurred_at),
        "tries": delivery.tries,
        "last_error": delivery.last_error,
    }
