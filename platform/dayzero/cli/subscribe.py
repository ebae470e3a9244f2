"""Commands about subscribers."""

import re
from datetime import UTC, datetime
from typing import Annotated
from uuid import uuid4

import typer

from dayzero.adapters.notify.choose import check_target, choose, new_secret
from dayzero.cli.opening import only_one, open_plane
from dayzero.cli.output import print_document, print_line, print_table
from dayzero.domain.canonical import Json, plain
from dayzero.domain.events import Event, EventKind
from dayzero.domain.subscriptions import Channel, Delivery, DeliveryState, Subscription
from dayzero.errors import BadInputError
from dayzero.ports.catalog import Subscribers

app = typer.Typer(help="Who is told when something changes, over webhooks, chat or mail.", no_args_is_help=True)
SCHEMA = "dayzero.subscriptions/1"
Json_ = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Id = Annotated[str, typer.Argument(help="Id of a subscription, or its beginning.")]


@app.command()
def add(
    context: typer.Context,
    target: Annotated[str, typer.Argument(help="https://host/path, or an Apprise URL for chat and mail.")],
    filter_: Annotated[
        str, typer.Option("--filter", help='Such as: event = "dayzero.entry.changed" and platform = "cpu"')
    ] = "",
    channel: Annotated[Channel | None, typer.Option(help="Default: webhook for http(s), else apprise.")] = None,
    secret: Annotated[str | None, typer.Option(help="Secret that signs webhooks (whsec_…); default: a fresh one.")] = None,
    json: Json_ = False,
) -> None:
    """Subscribe: from now on matching events go there. A webhook's secret is shown once, here."""
    over = channel or (Channel.WEBHOOK if re.match(r"https?://", target, re.IGNORECASE) else Channel.APPRISE)
    check_target(over, target)
    if over is not Channel.WEBHOOK and secret is not None:
        raise BadInputError("only webhooks are signed.", remedy="Leave out --secret.")
    with open_plane(context) as plane:
        signed_by = (secret or new_secret()) if over is Channel.WEBHOOK else None
        made = plane.subscribers.subscribe(over, target, filter_, signed_by)
    if json:
        print_document({"schema": SCHEMA, "subscriptions": [{**_public(made, ()), "secret": made.secret}]})
        return
    print_line(f"subscription {made.id} to {shown_target(made)}")
    if made.secret:
        print_line(f"secret (shown once; it verifies the signature): {made.secret}")


@app.command()
def ls(context: typer.Context, json: Json_ = False) -> None:
    """Every subscription, with how many deliveries are pending, delivered and dead. Secrets are not shown."""
    with open_plane(context) as plane:
        rows = [_public(one, tuple(plane.subscribers.deliveries(one.id))) for one in plane.subscribers.subscriptions()]
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
    print_line(f"subscription {found.id} is removed")


@app.command()
def test(context: typer.Context, subscription: Id, json: Json_ = False) -> None:
    """Send one test event there now (it is marked `test`); exit code 4 when it is not taken."""
    with open_plane(context) as plane:
        found = _named(plane.subscribers, subscription)
    now = datetime.now(UTC)
    event = Event(str(uuid4()), EventKind.ENTRY_CHANGED, "dayzero/test", now, {"test": 1, "model": "dayzero/test"})
    choose(found).deliver(found, event, Delivery(event.id, event.id, found.id, DeliveryState.PENDING, 1, now))
    if json:
        print_document({"schema": "dayzero.subscription-test/1", "subscription": found.id, "message": event.id, "taken": True})
        return
    print_line(f"{shown_target(found)} took message {event.id}")


def shown_target(subscription: Subscription) -> str:
    """Where a subscription goes, without what may be a credential: user, password, query; all but the scheme of a chat URL."""
    if subscription.channel is Channel.APPRISE:
        return f"{subscription.target.partition('://')[0]}://…"
    return re.sub(r"^(https?://)[^/@]*@", r"\1", re.split(r"[?#]", subscription.target)[0], flags=re.IGNORECASE)


def _named(subscribers: Subscribers, wanted: str) -> Subscription:
    known = {one.id: one for one in subscribers.subscriptions()}
    return known[only_one("subscription", wanted, list(known), "dayzero subscribe ls")]


def _public(subscription: Subscription, deliveries: tuple[Delivery, ...]) -> dict[str, Json]:
    last_error = next((delivery.last_error for delivery in deliveries if delivery.last_error), None)
    return {
        "id": subscription.id,
        "channel": subscription.channel.value,
        "target": shown_target(subscription),
        "filter": subscription.predicate,
        "enabled": subscription.enabled,
        "created_at": plain(subscription.created_at),
        **{state.value: sum(delivery.state is state for delivery in deliveries) for state in DeliveryState},
        "last_error": last_error,
    }
