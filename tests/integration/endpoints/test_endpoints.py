"""`dayzero verify --endpoint` against a server of our own: a sound one passes, each wrong answer is said in one sentence."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dayzero.adapters.endpoints.asking import observe_endpoint
from dayzero.adapters.endpoints.client import Endpoint
from dayzero.cli.main import app
from dayzero.codec import dump, load
from dayzero.domain.observed_endpoint import EndpointObserved
from dayzero.domain.verdict import Check, Verdict
from dayzero.errors import BadInputError, UnavailableError
from dayzero.stages.judging.endpoints import LIVE, OUTSIDE, endpoint_checks, endpoint_measurements, endpoint_verdict
from openai_server import Answers, serving

ASKED = ("models", "stream", "determinism", "logprobs", "stop_reasons", "usage", "load")


def verified(answers: Answers, model: str | None = None, deadline_s: float = 5.0, silence_s: float = 5.0) -> dict[str, Check]:
    with serving(answers) as url, Endpoint(url, deadline_s=deadline_s, silence_s=silence_s) as endpoint:
        observed = observe_endpoint(endpoint, model)
    assert load(EndpointObserved, dump(observed)) == observed
    return {check.check: check for check in endpoint_checks(observed, ("evidence",))}


def test_a_sound_server_passes_and_what_cannot_be_known_is_not_run() -> None:
    answers = Answers()
    with serving(answers) as url, Endpoint(url) as endpoint:
        observed = observe_endpoint(endpoint)
    checks = {check.check: check for check in endpoint_checks(observed, ("evidence",))}
    outside = {name for _, name, _ in OUTSIDE}
    assert {name: check.verdict for name, check in checks.items() if name not in outside} == dict.fromkeys(
        [
            LIVE,
            *(f"endpoint.{name}" for name in ("models", "stream", "determinism", "logprobs", "stop_reasons", "usage", "load")),
        ],
        Verdict.PASS,
    )
    assert {checks[name].verdict for name in outside} == {Verdict.NOT_RUN}
    assert all("cannot be known from outside" in checks[name].reason for name in outside)
    assert checks["endpoint.stop_reasons"].n == 2 and checks["endpoint.determinism"].n == 4
    assert {row.name for row in endpoint_measurements(observed)} == {"ttft", "tpot", "throughput"}
    assert {body["temperature"] for body in answers.bodies} == {0}
    assert endpoint_verdict(tuple(checks.values())).verdict is Verdict.PASS


def test_a_server_without_chat_is_asked_for_plain_text() -> None:
    checks = verified(Answers(chat=False, logprobs=False))
    assert checks[LIVE].verdict is Verdict.PASS and checks[LIVE].numbers["protocol"] == "text"
    assert checks["endpoint.logprobs"].verdict is Verdict.NOT_RUN


@pytest.mark.parametrize(
    ("trick", "check", "verdict", "said"),
    [
        ("empty", LIVE, Verdict.FAIL, "without any text"),
        ("fails", LIVE, Verdict.FAIL, "the server failed with 500 (<html>xxx"),
        ("page", LIVE, Verdict.FAIL, "a web page came, and not JSON"),
        ("other-json", LIVE, Verdict.FAIL, "without `choices`"),
        ("list", LIVE, Verdict.FAIL, "list and no object"),
        ("nested", LIVE, Verdict.FAIL, "not JSON"),
        ("huge", LIVE, Verdict.FAIL, "more than 8,388,608 bytes came"),
        ("cuts", LIVE, Verdict.FAIL, "the connection broke"),
        ("redirects", LIVE, Verdict.ERROR, "redirected with 302"),
        ("drifts", "endpoint.determinism", Verdict.FAIL, "differ, the earliest at character 8"),
        ("truncates", "endpoint.stream", Verdict.FAIL, "broke off after 3 events"),
        ("truncates", "endpoint.load", Verdict.FAIL, "0 of 4 streams"),
        ("ignores-stop", "endpoint.stop_reasons", Verdict.FAIL, "wrote on past its stop"),
        ("ignores-limit", "endpoint.stop_reasons", Verdict.FAIL, "cut off after 4 tokens it gave 'stop'"),
        ("ignores-limit", "endpoint.usage", Verdict.FAIL, "10 tokens are counted where 4 were allowed"),
        ("says-stop", "endpoint.stop_reasons", Verdict.FAIL, "'stop', not 'length'"),
        ("miscounts", "endpoint.usage", Verdict.FAIL, "tokens are counted"),
        ("refuses-logprobs", "endpoint.logprobs", Verdict.NOT_RUN, "not offered"),
        ("positive-logprob", "endpoint.logprobs", Verdict.FAIL, "above 0"),
        ("not-greedy", "endpoint.logprobs", Verdict.FAIL, "prefers '?'"),
    ],
)
def test_each_wrong_answer_is_said_in_one_sentence(trick: str, check: str, verdict: Verdict, said: str) -> None:
    found = verified(Answers(tricks=frozenset({trick})))[check]
    assert (found.verdict, said in found.reason) == (verdict, True), found.reason
    assert "\n" not in found.reason and len(found.reason) < 400


def test_a_server_that_hangs_or_drips_is_given_up() -> None:
    hung = verified(Answers(tricks=frozenset({"hangs"})), silence_s=0.3)
    assert (hung[LIVE].verdict, "the server hangs" in hung[LIVE].reason) == (Verdict.FAIL, True)
    assert hung["endpoint.stream"].verdict is Verdict.NOT_RUN
    dripped = verified(Answers(tricks=frozenset({"drips"})), deadline_s=0.4)
    assert "it was not over after 0.4 s" in dripped[LIVE].reason


def test_a_model_that_is_not_served_and_a_key_that_is_missing() -> None:
    checks = verified(Answers(), model="another")
    assert checks["endpoint.models"].verdict is Verdict.FAIL
    assert "not among the models" in checks["endpoint.models"].reason
    locked = verified(Answers(key="secret"), model="sea-model")
    assert locked[LIVE].verdict is Verdict.ERROR and "DAYZERO_ENDPOINT_KEY" in locked[LIVE].reason
    with serving(Answers(key="secret")) as url, Endpoint(url, "secret") as endpoint:
        assert observe_endpoint(endpoint).first.completion is not None


def test_nothing_at_the_address_and_several_models() -> None:
    with Endpoint("http://127.0.0.1:1") as endpoint, pytest.raises(UnavailableError, match="Start the server"):
        observe_endpoint(endpoint)
    with (
        serving(Answers(key="x")) as url,
        Endpoint(url) as endpoint,
        pytest.raises(BadInputError, match="Name it with --model"),
    ):
        observe_endpoint(endpoint)


@pytest.mark.parametrize("url", ["", "ftp://host", "http://", "host:8000", "http://host/v1?x=1", "http://[::1"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(BadInputError, match="http://HOST:PORT/v1"):
        Endpoint(url)


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("DAYZERO_DATA_DIR", str(tmp_path / "data"))

    def command(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, list(arguments), catch_exceptions=True)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            return int(getattr(done.exception, "exit_code", 99)), str(done.exception)
        return done.exit_code, done.stdout

    return command


def test_the_command_ends_with_the_deciding_verdict_and_keeps_the_answers(run: Run, tmp_path: Path) -> None:
    with serving(Answers()) as url:
        code, said = run("verify", "--endpoint", url, "--json")
    document = json.loads(said)
    assert (code, document["schema"], document["verdict"]) == (0, "dayzero.verify-endpoint/1", "pass")
    (digest,) = document["checks"][0]["evidence"]
    assert (tmp_path / "data" / "artifacts" / digest[:2] / digest).is_file()
    with serving(Answers(tricks=frozenset({"drifts"}))) as url:
        code, said = run("verify", "--endpoint", url)
    assert code == 1 and "fail: " in said and "differ, the earliest" in said
    with serving(Answers(key="secret")) as url:
        code, _ = run("verify", "--endpoint", url, "--model", "sea-model")
    assert code == 3
    code, said = run("verify", "--endpoint", "http://127.0.0.1:1")
    assert code == 4 and "Start the server" in said


def test_the_command_refuses_arguments_that_do_not_go_together(run: Run) -> None:
    assert run("verify") == (2, "verify needs a model and a platform. Give MODEL and --platform, or --endpoint URL.")
    assert run("verify", "hf:a/b", "--endpoint", "http://127.0.0.1:1")[0] == 2
