"""A feed of events as Atom (RFC 4287)."""

from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import quote
from xml.etree.ElementTree import Element, SubElement, tostring

from dayzero.domain.events import Event
from dayzero.stages.bundle.escape import clean

_NAMESPACE = "http://www.w3.org/2005/Atom"
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN = ("platform", "lifecycle", "correctness", "performance", "freshness", "stage", "reason")
_MAX_TITLE_CHARACTERS = 300
_MAX_VALUE_CHARACTERS = 2000


def atom_feed(events: Sequence[Event], predicate: str, self_url: str, base_url: str) -> bytes:
    """The feed's document; what hubs supplied is cleaned of everything that XML cannot hold."""
    feed = Element("feed", xmlns=_NAMESPACE)
    _text(feed, "id", self_url)
    _text(feed, "title", f"dayzero: {predicate}" if predicate else "dayzero: every event")
    _text(feed, "updated", (events[0].occurred_at if events else _NEVER).isoformat())
    SubElement(feed, "link", rel="self", href=self_url)
    SubElement(feed, "link", rel="alternate", href=base_url + "/")
    _text(SubElement(feed, "author"), "name", "dayzero")
    for event in events:
        _entry(feed, event, base_url)
    body: bytes = tostring(feed, encoding="utf-8")
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + body


def _entry(feed: Element, event: Event, base_url: str) -> None:
    entry = SubElement(feed, "entry")
    _text(entry, "id", f"urn:uuid:{event.id}")
    platform = event.fields.get("platform")
    place = f" on {platform}" if platform is not None else ""
    _text(entry, "title", f"{event.subject}{place}: {event.kind.value.removeprefix('dayzero.')}"[:_MAX_TITLE_CHARACTERS])
    _text(entry, "updated", event.occurred_at.isoformat())
    page = event.fields.get("entry_id")
    where = f"/compat/{quote(str(page), safe='')}" if page is not None else f"/models/{quote(event.subject)}"
    SubElement(entry, "link", rel="alternate", href=base_url + where)
    SubElement(entry, "category", term=event.kind.value)
    lines = [f"{name}: {event.fields[name]}"[:_MAX_VALUE_CHARACTERS] for name in _SHOWN if event.fields.get(name) is not None]
    content = SubElement(entry, "content", type="text")
    content.text = "\n".join(clean(line) for line in lines)


def _text(parent: Element, name: str, text: str) -> None:
    SubElement(parent, name).text = clean(text)
