"""What subscribers are sent, and which targets are refused."""

import base64
import json
from datetime import UTC, datetime

import pytest

from dayzero.adapters.notify.chat import message_of
from dayzero.adapters.notify.choose import ChosenNotifier, new_secret
from dayzero.adapters.notify.webhook import payload_of
from dayzero.domain.events import Event, EventKind
from dayzero.domain.subscriptions import Channel
from dayzero.errors import BadInputError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EVENT = Event(
    "id-1", EventKind.ENTRY_CHANGED, "org/m\x1b[31m", NOW, {"platform": "cpu", "correctness": "verified\nspoofed: yes"}
)


def test_the_payload_has_the_shape_that_the_scheme_recommends() -> None:
    assert json.loads(payload_of(EVENT)) == {
        "id": "id-1",
        "type": "dayzero.entry.changed",
        "timestamp": "2026-01-01T00:00:00+00:00",
        "data": {"subject": "org/m\x1b[31m", "platform": "cpu", "correctness": "verified\nspoofed: yes"},
    }


def test_chat_messages_carry_no_control_characters_and_no_forged_lines() -> None:
    title, body = message_of(EVENT)
    assert "\x1b" not in title
    assert body.splitlines() == [
        "correctness: verified spoofed: yes",
        "platform: cpu",
        "event: id-1 at 2026-01-01T00:00:00+00:00",
    ]


@pytest.mark.parametrize("target", ["", "ftp://x/y", "https://", "not a url", "http://[::1", "file:///etc/passwd", "/hook"])
def test_targets_that_are_no_webhooks_are_refused(target: str) -> None:
    with pytest.raises(BadInputError, match="https://host/path"):
        ChosenNotifier().check(Channel.WEBHOOK, target)


def test_an_unknown_chat_channel_is_refused_without_showing_its_secrets() -> None:
    with pytest.raises(BadInputError) as refused:
        ChosenNotifier().check(Channel.APPRISE, "nosuchchat://user:hunter2@host")
    assert "nosuchchat://" in str(refused.value)
    assert "hunter2" not in str(refused.value)
    ChosenNotifier().check(Channel.APPRISE, "json://localhost/path")
    ChosenNotifier().check(Channel.WEBHOOK, "https://93.184.215.14/hook")


def test_secrets_are_fresh_and_long_enough() -> None:
    assert new_secret() != new_secret()
    assert len(base64.b64decode(new_secret().removeprefix("whsec_"))) == 32
