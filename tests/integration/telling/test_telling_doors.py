"""The commands and pages that tell people, on a real store: documented JSON, filters, escapes, exit codes, one subscriber."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result
from fastapi.testclient import TestClient
from pydantic import SecretStr
from standardwebhooks import Webhook
from test_webhook_receiver import Receiver, receiving
from typer import Typer
from typer.testing import CliRunner

from dayzero import app
from dayzero.app import Plane
from dayzero.cli import compat, run, subscribe, waiver
from dayzero.domain.adaptation import AdaptationState
from dayzero.domain.columns import COMPATIBILITY_COLUMNS
from dayzero.domain.entry import CompatibilityEntry, Correctness
from dayzero.domain.planning import Degrees
from dayzero.domain.verdict import Measurement, Verdict
from dayzero.errors import BadInputError, DayzeroError, NotFoundError, UnavailableError
from dayzero.settings import Settings
from dayzero.stages.bundle.file import BundleFile
from dayzero.stages.explaining.picture import plan_picture
from dayzero.steps.publishing import archive
from dayzero.web.door import create_app
from dayzero.web.routers import all_routers
from plans import DENSE, made_plan, shipped, structure
from store_nouns import check, entry, release

pytestmark = pytest.mark.postgres

HOSTILE = "<script>alert('1')</script>\x1b[31m\"onload=\"x"
Command = Callable[..., Result]


@pytest.fixture
def plane(database_url: str, tmp_path: Path) -> Iterator[Plane]:
    settings = Settings(database_url=SecretStr(database_url), data_dir=tmp_path / "data", subscriber_networks=("127.0.0.0/8",))
    with app.control_plane(settings) as opened:
        yield opened


@pytest.fixture
def command(plane: Plane) -> Command:
    def invoke(group: Typer, *arguments: str) -> Result:
        return CliRunner().invoke(group, list(arguments), obj=lambda settings: nullcontext(plane))

    return invoke


def finish(plane: Plane, made: CompatibilityEntry | None = None, repo_id: str = "org/model") -> str:
    """An adaptation that ended with an entry; its id."""
    published = release(repo_id=repo_id, weights=repo_id)
    recorded = plane.watchbook.record_release(published, ["cpu"])
    lease = plane.ledger.claim(recorded.adaptations[0], 1, "tester")
    plane.ledger.put_check(check(), lease)
    plane.ledger.log(lease, f"verify: {HOSTILE}")
    made = made or entry(published.content_id, model=repo_id)
    key = replace(made.key, content_id=published.content_id, model=repo_id)
    plane.catalog.finish(lease, AdaptationState.DONE, "done", replace(made, key=key))
    return lease.adaptation_id


def hostile_entry() -> CompatibilityEntry:
    return replace(
        entry("x", Correctness.FAILING, checks=(replace(check(Verdict.FAIL), reason=HOSTILE),)),
        reason=f"=cmd {HOSTILE}",
        sample_text=HOSTILE,
        measurements=(Measurement("ttft_s", 0.25, "s"),),
        gaps=("attention.mla",),
        missing_checks=("model.perplexity",),
    )


def document(result: Result) -> dict[str, list[dict[str, object]]]:
    assert result.exit_code == 0, result.output
    parsed: dict[str, list[dict[str, object]]] = json.loads(result.stdout)
    return parsed


def test_lists_current_entries_with_the_columns_of_the_view(plane: Plane, command: Command) -> None:
    finish(plane)
    finish(plane, hostile_entry(), "org/other")
    listed = document(command(compat.app, "ls", "--json"))
    assert listed["schema"] == "dayzero.compat/1"
    assert [list(row) for row in listed["entries"]] == [[column.name for column in COMPATIBILITY_COLUMNS]] * 2
    assert [row["model"] for row in listed["entries"]] == ["org/model", "org/other"]
    verified = document(command(compat.app, "ls", 'correctness = "verified" and devices >= 3', "--json"))
    assert [row["model"] for row in verified["entries"]] == ["org/model"]
    rollup = document(command(compat.app, "ls", "--rollup", "--json"))["rollup"]
    assert [(row["model"], row["correctness"]) for row in rollup] == [("org/model", "verified"), ("org/other", "failing")]
    table = command(compat.app, "ls").stdout
    assert "org/other" in table
    assert "\x1b" not in table


def test_bad_filters_are_refused_with_their_position(command: Command) -> None:
    refused = command(compat.app, "ls", 'modell = "x"')
    assert isinstance(refused.exception, BadInputError)
    assert "character 1" in str(refused.exception)
    assert "correctness" in str(refused.exception)
    both = command(compat.app, "ls", 'model = "x"', "--rollup")
    assert isinstance(both.exception, BadInputError)


def test_shows_one_entry_and_its_history(plane: Plane, command: Command) -> None:
    finish(plane, hostile_entry())
    (row,) = document(command(compat.app, "ls", "--json"))["entries"]
    shown = document(command(compat.app, "show", str(row["entry_id"])[:10], "--json"))
    assert shown["entries"] == [row]
    assert shown["entry"]["gaps"] == ["attention.mla"]  # type: ignore[call-overload]
    text = command(compat.app, "show", str(row["entry_id"])).stdout
    for words in ("attention.mla", "model.perplexity", "ttft_s", "0.25", "generation", "failing"):
        assert words in text
    assert "\x1b" not in text
    history = document(command(compat.app, "history", "org/model", "--platform", "cpu", "--json"))
    assert history["entries"] == [row]
    assert isinstance(command(compat.app, "show", "0" * 40).exception, NotFoundError)
    assert isinstance(command(compat.app, "history", "no/such").exception, NotFoundError)


def test_exports_whole_files_that_other_programs_read(plane: Plane, command: Command, tmp_path: Path) -> None:
    finish(plane, hostile_entry())
    (row,) = json.loads(command(compat.app, "export").stdout)["entries"]
    out = tmp_path / "list.csv"
    assert command(compat.app, "export", "--format", "csv", "--out", str(out)).exit_code == 0
    (read,) = csv.DictReader(io.StringIO(out.read_text()))
    assert set(read) == set(row)
    assert float(read["devices"]) == 3
    assert read["reason"].startswith("'=cmd")
    assert read["verified_at"] == ""
    markdown = command(compat.app, "export", "-f", "markdown").stdout
    assert "<script" not in markdown
    assert len(markdown.splitlines()) == 3
    refused = command(compat.app, "export", "--out", str(tmp_path / "no" / "folder.json"))
    assert isinstance(refused.exception, BadInputError)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["list.csv"]


def test_subscribes_tests_delivers_and_unsubscribes(plane: Plane, command: Command) -> None:
    with receiving(Receiver([204])) as receiver:
        added = document(command(subscribe.app, "add", receiver.url, "--filter", 'correctness = "verified"', "--json"))
        (made,) = added["subscriptions"]
        assert command(subscribe.app, "test", str(made["id"])[:8]).exit_code == 0
        finish(plane)
        finish(plane, hostile_entry(), "org/other")
        report = app.dispatch_once(plane, None)
    assert report.problems == ()
    test, *told = [Webhook(str(made["secret"])).verify(request.body, request.headers) for request in receiver.requests]
    assert test["data"]["test"] == 1
    assert told
    assert {message["data"]["correctness"] for message in told} == {"verified"}
    assert {message["data"]["subject"] for message in told} == {"org/model"}
    (listed,) = document(command(subscribe.app, "ls", "--json"))["subscriptions"]
    assert listed["delivered"] == len(told)
    assert "secret" not in listed
    assert command(subscribe.app, "rm", str(made["id"])).exit_code == 0
    assert document(command(subscribe.app, "ls", "--json"))["subscriptions"] == []


def test_subscriptions_that_cannot_work_are_refused(command: Command) -> None:
    for arguments in (("ftp//x",), ("https://x/y", "--filter", 'nope = "x"'), ("json://x", "--secret", "whsec_x")):
        assert isinstance(command(subscribe.app, "add", *arguments).exception, BadInputError)
    assert isinstance(command(subscribe.app, "rm", "abc").exception, NotFoundError)
    assert document(command(subscribe.app, "ls", "--json"))["subscriptions"] == []


def test_a_subscriber_that_is_down_is_an_error_of_the_test_command(command: Command) -> None:
    with receiving(Receiver([204])) as receiver:
        pass
    (made,) = document(command(subscribe.app, "add", receiver.url + "?token=hidden", "--json"))["subscriptions"]
    assert isinstance(command(subscribe.app, "test", str(made["id"])).exception, UnavailableError)
    assert "hidden" not in command(subscribe.app, "ls").stdout


def test_runs_are_listed_shown_logged_cancelled_and_retried(plane: Plane, command: Command) -> None:
    done = finish(plane)
    (listed,) = document(command(run.app, "ls", "--state", "done", "--json"))["adaptations"]
    assert listed["id"] == done
    shown = document(command(run.app, "show", done[:8], "--json"))
    assert [one["check"] for one in shown["checks"]] == ["generation"]
    assert "generation" in command(run.app, "show", done).stdout
    logged = command(run.app, "logs", done, "--follow").stdout
    assert "verify: <script>" in logged
    assert "\x1b" not in logged
    (line,) = document(command(run.app, "logs", done, "--json"))["lines"]
    assert line["number"] == 1
    assert document(command(run.app, "retry", done, "--json"))["adaptation"]["state"] == "requested"  # type: ignore[call-overload]
    assert document(command(run.app, "cancel", done, "--json"))["adaptation"]["state"] == "cancelled"  # type: ignore[call-overload]
    assert command(run.app, "ls").exit_code == 0
    assert isinstance(command(run.app, "show", "zzz").exception, NotFoundError)
    assert isinstance(command(run.app, "logs", done, "--follow", "--json").exception, BadInputError)


@pytest.fixture
def client(plane: Plane) -> Iterator[TestClient]:
    with TestClient(create_app(plane, all_routers(plane)), raise_server_exceptions=False) as opened:
        yield opened


def test_the_web_tells_the_same_as_the_command(plane: Plane, command: Command, client: TestClient) -> None:
    finish(plane)
    finish(plane, hostile_entry(), "org/other")
    filter_ = 'model ~ "org/*" and correctness = "failing"'
    assert client.get("/v1/compat", params={"filter": filter_}).json() == document(command(compat.app, "ls", filter_, "--json"))
    rollup = client.get("/v1/compat/rollup").json()
    assert rollup == document(command(compat.app, "ls", "--rollup", "--json"))
    entry_id = rollup["rollup"][1]["best_entry_id"]
    assert client.get(f"/v1/compat/{entry_id}").json() == document(command(compat.app, "show", entry_id, "--json"))


def test_pages_escape_everything_and_load_nothing(plane: Plane, client: TestClient) -> None:
    finish(plane, hostile_entry())
    (row,) = plane.compatibility.current()
    for path in (
        "/",
        f"/compat/{row['entry_id']}",
        "/?filter=" + '"><script>',
        "/compat/<script>",
        "/models/org/model",
        "/runs",
    ):
        page = client.get(path)
        assert "<script>" not in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert 'onload="x' not in page.text
    assert "failing" in client.get("/").text
    assert "&lt;script&gt;" in client.get("/models/org/model").text
    assert client.get("/?filter=nope").status_code == 422
    assert client.get("/compat/" + "0" * 40).status_code == 404
    assert "attention.mla" in client.get(f"/compat/{row['entry_id']}").text


def test_an_entry_shows_the_picture_of_its_plan(plane: Plane, client: TestClient) -> None:
    picture = plan_picture(made_plan(Degrees(tp=2), structure(DENSE)), shipped("h200"), HOSTILE)
    files = (BundleFile("README.md", "x"), BundleFile("plan.svg", picture))
    bundle = plane.artifacts.put(archive(files), media_type="application/gzip", name="b.tar.gz")
    finish(plane, replace(entry("x"), bundle=bundle))
    (row,) = plane.compatibility.current()
    page = client.get(f"/compat/{row['entry_id']}")
    assert (
        f'src="/compat/{row["entry_id"]}/plan.svg"' in page.text and "img-src 'self'" in page.headers["content-security-policy"]
    )
    shown = client.get(f"/compat/{row['entry_id']}/plan.svg")
    assert shown.text == picture and shown.headers["content-type"] == "image/svg+xml"
    assert "sandbox" in shown.headers["content-security-policy"] and "<script" not in shown.text


def test_an_entry_without_a_picture_has_none(plane: Plane, client: TestClient) -> None:
    broken = plane.artifacts.put(b"no archive", media_type="application/gzip", name="b.tar.gz")
    for bundle, model in ((None, "org/none"), (broken, "org/broken"), ("0" * 64, "org/gone")):
        finish(plane, replace(entry("x"), bundle=bundle), model)
    for row in plane.compatibility.current():
        assert "plan.svg" not in client.get(f"/compat/{row['entry_id']}").text
        refused = client.get(f"/compat/{row['entry_id']}/plan.svg")
        assert refused.status_code == 404 and "no picture of its plan" in refused.text


def test_wrong_requests_get_one_sentence(client: TestClient) -> None:
    refused = client.get("/v1/compat", params={"filter": "nope"})
    assert refused.status_code == 422
    assert "character 1" in refused.text
    assert client.get("/v1/compat/zzz").status_code == 404
    assert client.get("/v1/compat", params={"limit": 0}).status_code == 422
    assert issubclass(NotFoundError, DayzeroError)
    assert "Nothing is watched yet." in client.get("/").text


def test_waivers_by_command(command: Command) -> None:
    arguments = ("org/*", "layers.three_way", "--reason", "known upstream", "--owner", "Ada", "--days", "30")
    made = json.loads(command(waiver.app, "add", *arguments, "--json").stdout)["waivers"][0]
    assert (made["model"], made["platform"], made["owner"]) == ("org/*", "*", "Ada")
    assert "in force" in command(waiver.app, "ls").stdout
    assert "ended" in command(waiver.app, "end", made["id"][:8]).stdout
    assert json.loads(command(waiver.app, "ls", "--json").stdout)["waivers"] == []
    assert len(json.loads(command(waiver.app, "ls", "--all", "--json").stdout)["waivers"]) == 1
    refused = command(waiver.app, "add", "org/m", "no.such", "--reason", "x", "--owner", "x", "--days", "1")
    assert isinstance(refused.exception, BadInputError) and "layers.three_way" in str(refused.exception)
