"""Plays the demo from the first announcement to the last curtain."""

import base64
import secrets
import shutil
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dayzero import app
from dayzero.adapters.hubs.serving.server import HubServer
from dayzero.demo.acts import ACTS, PLANTED_PATTERN, Act, Outcome, judge_act, models_are_made
from dayzero.demo.group import Group, running_group
from dayzero.demo.publishing import publish_configuration, publish_weights
from dayzero.demo.receiver import Mailbox, receiving
from dayzero.demo.screen import Screen
from dayzero.domain.adaptation import GOING_ON, Adaptation, Purpose
from dayzero.domain.entry import CompatibilityEntry
from dayzero.domain.events import EventKind
from dayzero.domain.release import HubKind
from dayzero.domain.subscriptions import Channel
from dayzero.domain.watching import Rule
from dayzero.errors import BadInputError
from dayzero.settings import load_settings
from dayzero.stages.precision.planting import planted_layer
from dayzero.stages.structure.reading import read_spec

ACT_TIMEOUT_S = 900.0
LOOK_AGAIN_S = 0.5
TOLD = (EventKind.ADAPTATION_COMPLETED, EventKind.ADAPTATION_FAILED)


@dataclass(frozen=True, slots=True)
class Play:
    """What a play works with."""

    plane: app.Plane
    group: Group
    hub_dir: Path
    models_dir: Path
    mailbox: Mailbox
    screen: Screen


def perform(models_dir: Path, data_dir: Path, seed: int | None, keep_up: bool) -> tuple[Outcome, ...]:
    """Play every act on a fresh data folder and return what came of each."""
    if not models_are_made(models_dir):
        raise BadInputError(f"the demo's models are not in {models_dir}.", remedy="Run `make install`, which makes them.")
    screen = Screen()
    signal.signal(signal.SIGTERM, _leave_in_order)
    seed = secrets.randbelow(10_000) if seed is None else seed
    shutil.rmtree(data_dir, ignore_errors=True)
    hub_dir = data_dir / "hub"
    hub_dir.mkdir(parents=True)
    secret = "whsec_" + base64.b64encode(secrets.token_bytes(24)).decode()
    with HubServer(hub_dir) as hub, receiving(secret) as mailbox:
        screen.phase("start", f"a local hub on {hub.url}, then `dayzero up` on embedded defaults")
        with running_group(data_dir, _environment(hub.url, seed, models_dir)) as group:
            settings = load_settings(data_dir=data_dir, hf_endpoint=hub.url)
            with app.control_plane(settings) as plane:
                play = Play(plane, group, hub_dir, models_dir, mailbox, screen)
                outcomes = _acts(play, hub.url, seed)
            screen.curtain(outcomes, group)
            if keep_up:
                screen.say("Everything stays up until you press Ctrl-C.")
                threading.Event().wait()
    return outcomes


def _leave_in_order(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def _environment(hub_url: str, seed: int, models_dir: Path) -> dict[str, str]:
    return {
        "DAYZERO_COMPILE_CACHE": str(models_dir.resolve().parent / "compiled"),
        "DAYZERO_HF_ENDPOINT": hub_url,
        "DAYZERO_CPU_DEVICES": "3",
        "DAYZERO_SUBSCRIBER_NETWORKS": '["127.0.0.0/8"]',
        # Three rehearsals and 120 questions would take minutes more; `dayzero announce` and `dayzero verify` show them.
        "DAYZERO_REHEARSE": "false",
        "DAYZERO_TASKS": "false",
        "DAYZERO_POLL_INTERVAL_S": "2",
        "DAYZERO_RECONCILE_INTERVAL_S": "2",
        "DAYZERO_OPERATOR_PLUGINS": f'["planted-fault:seed={seed}@{PLANTED_PATTERN}"]',
    }


def _acts(play: Play, hub_url: str, seed: int) -> tuple[Outcome, ...]:
    play.plane.watchbook.add_source(HubKind.HUGGING_FACE, hub_url, Rule(platforms=("cpu",)), None)
    play.plane.subscribers.subscribe(Channel.WEBHOOK, play.mailbox.url, "", play.mailbox.secret)
    play.screen.say(f"watching {hub_url}; a webhook subscriber listens on {play.mailbox.url}")
    play.screen.say(f"Prefect UI: {play.group.prefect_url}   compatibility list: {play.group.door_url}")
    first = [act for act in ACTS if act.configuration_first]
    for act in first:
        play.screen.phase(act.repo_id, f"{act.story}. Announced: {act.announced.value}")
        publish_configuration(play.models_dir / act.folder, play.hub_dir, act.repo_id)
        play.screen.say("published: config.json, no weights yet")
    _await_ends(play, first, Purpose.PRESTAGE)
    for act in first:
        publish_weights(play.models_dir / act.folder, play.hub_dir, act.repo_id)
        play.screen.say(f"{act.repo_id}: published the weights")
    planted = next(act for act in ACTS if not act.configuration_first)
    layers = _layer_count(play.models_dir / planted.folder)
    layer = planted_layer(seed, layers)
    play.screen.phase(planted.repo_id, f"{planted.story}. Seed {seed} draws layer {layer} of {layers}. Announced: failing")
    publish_configuration(play.models_dir / planted.folder, play.hub_dir, planted.repo_id)
    publish_weights(play.models_dir / planted.folder, play.hub_dir, planted.repo_id)
    _await_ends(play, ACTS, Purpose.ADAPT)
    return tuple(_conclusion(play, act, layer) for act in ACTS)


def _conclusion(play: Play, act: Act, layer: int) -> Outcome:
    entry = _entry_of(play, act)
    notified = _await(lambda: any(play.mailbox.about(kind.value, act.repo_id) for kind in TOLD), 60.0)
    outcome = judge_act(act, entry, layer, notified)
    play.screen.entry(outcome, play.mailbox)
    return outcome


def _await_ends(play: Play, acts: Sequence[Act], purpose: Purpose) -> None:
    """Show the adaptations' logs as they grow, until each has ended."""
    shown = dict.fromkeys(acts, 0)
    waiting = set(acts)
    deadline = time.monotonic() + ACT_TIMEOUT_S
    while waiting and time.monotonic() < deadline:
        for act in [act for act in acts if act in waiting]:
            found = _adaptation(play, act, purpose)
            if found is None:
                continue
            for number, _, line in play.plane.catalog.log_lines(found.id, shown[act]):
                play.screen.progress(act.repo_id, purpose.value, line)
                shown[act] = number
            if found.state not in GOING_ON:
                play.screen.progress(act.repo_id, purpose.value, f"ended: {found.state.value}: {found.reason or ''}")
                waiting.discard(act)
        time.sleep(LOOK_AGAIN_S)
    for act in waiting:
        play.screen.progress(act.repo_id, purpose.value, f"did not end in {ACT_TIMEOUT_S:.0f} s; see {play.group.log}")


def _adaptation(play: Play, act: Act, purpose: Purpose) -> Adaptation | None:
    found = play.plane.catalog.adaptations(model=act.repo_id)
    return next((adaptation for adaptation in found if adaptation.purpose is purpose), None)


def _await(happened: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if happened():
            return True
        time.sleep(LOOK_AGAIN_S)
    return happened()


def _entry_of(play: Play, act: Act) -> CompatibilityEntry | None:
    rows = play.plane.compatibility.current(f'model = "{act.repo_id}"')
    return play.plane.compatibility.entry(str(rows[0]["entry_id"])) if rows else None


def _layer_count(model_dir: Path) -> int:
    return len(read_spec((model_dir / "config.json").read_bytes(), None).layers)
