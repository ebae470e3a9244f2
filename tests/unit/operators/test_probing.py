"""Verdicts on probed operators, and the manifest that is made of them."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace

from pydantic import SecretStr

from dayzero.adapters.remote.ledger import HttpLedger
from dayzero.app import Plane, tell_stack, told_to
from dayzero.domain.manifests import CollectiveFact, ManifestOrigin
from dayzero.domain.operators import OperatorManifest, OperatorSupport, SupportKind
from dayzero.domain.platforms import Stack
from dayzero.domain.probing import DeviceProbe, OperatorProbe, ProbeOutcome, ProbeSample
from dayzero.domain.verdict import Grade, Verdict
from dayzero.settings import Settings
from dayzero.stages.platforms.probing import judge_probe, limit_of, measured_manifest, summary_of


def sample(
    error: float | None = 1e-9, *, distribution: str = "normal", n: int = 64, bad: int = 0, exact: int = 0, off: int = 0
) -> ProbeSample:
    return ProbeSample(distribution, n, error, bad, exact, off)


def probe(
    *samples: ProbeSample, dtype: str = "float32", outcome: ProbeOutcome = ProbeOutcome.RAN, why: str | None = None
) -> OperatorProbe:
    return OperatorProbe("aten.mm.default", dtype, outcome, why, (dtype,), samples, 1e-5)


def test_limits_are_the_methods() -> None:
    assert limit_of("float32") == 2 * 2.0**-20 and limit_of("bfloat16") == 2 * 2.0**-8 and limit_of("int8") is None


def test_the_worst_inputs_decide() -> None:
    fact = judge_probe(probe(sample(1e-9), sample(1e-3, distribution="large"), sample(1e-7, distribution="small")))
    assert (fact.verdict, fact.worst_error, fact.distribution, fact.samples) == (Verdict.FAIL, 1e-3, "large", 3)
    assert fact.why == "error over rms 0.001, limit 1.91e-06"
    assert judge_probe(probe(sample(1e-3), dtype="bfloat16")).verdict is Verdict.PASS


def test_a_nan_that_float64_does_not_have_fails_whatever_the_rest() -> None:
    fact = judge_probe(probe(sample(0.0, bad=2), sample(1e-9, distribution="small")))
    assert fact.verdict is Verdict.FAIL and fact.why == "2 of 64 elements are NaN or infinite and are not in float64"


def test_integers_must_be_equal() -> None:
    good, bad = sample(None, n=0, exact=64), sample(None, n=0, exact=64, off=1, distribution="zeros")
    assert judge_probe(probe(good, dtype="int64")).verdict is Verdict.PASS
    fact = judge_probe(probe(good, bad, dtype="int64"))
    assert (fact.verdict, fact.distribution, fact.limit) == (Verdict.FAIL, "zeros", None)


def test_what_was_not_compared_is_neither_pass_nor_fail() -> None:
    for found in (
        probe(sample(0.0), dtype="float64"),
        probe(sample(None, n=0)),
        probe(),
        probe(outcome=ProbeOutcome.UNCOMPARED, why="it draws random numbers"),
        probe(outcome=ProbeOutcome.UNSAMPLED, why="nobody could make up arguments"),
    ):
        fact = judge_probe(found)
        assert fact.verdict is Verdict.NOT_RUN and fact.why, found


def test_what_raised_or_killed_the_process_is_an_error() -> None:
    for outcome in (ProbeOutcome.RAISED, ProbeOutcome.KILLED):
        fact = judge_probe(probe(outcome=outcome, why="the process died of SIGSEGV"))
        assert (fact.verdict, fact.why) == (Verdict.ERROR, "the process died of SIGSEGV")


def test_the_measured_manifest() -> None:
    names = ("aten.mm.default", "aten.bmm.default", "aten.sin.default", "aten.never.default")
    supports = tuple(OperatorSupport(name, SupportKind.NATIVE, Grade.DECLARED) for name in names)
    declared = OperatorManifest("cpu", "torch", "2", supports)
    probes = (
        probe(sample()), probe(outcome=ProbeOutcome.RAISED, why="not implemented for 'Bool'", dtype="bool"),
        OperatorProbe("aten.bmm.default", "float16", ProbeOutcome.RAN, None, (), (sample(0.5),), 1e-5),
        OperatorProbe("aten.sin.default", "float32", ProbeOutcome.KILLED, "it took longer than 30 s"),
    )  # fmt: skip
    collective = CollectiveFact("all_reduce", "gloo", 2, 1024, 1e-3, 1.024e6)
    manifest = measured_manifest(declared, DeviceProbe(probes, (collective,), ("aten.never.default",), 12.0, 1, ("a note",)))
    mm, bmm, sin, never = manifest.operators
    assert (mm.grade, mm.raised, mm.constraints) == (Grade.MEASURED, {"bool": "not implemented for 'Bool'"}, ())
    assert bmm.grade is Grade.MEASURED and bmm.constraints == ("numerics in float16: error over rms 0.5, limit 0.00195",)
    assert (sin.grade, never.grade, never.facts) == (Grade.DECLARED, Grade.DECLARED, ())
    assert sin.facts[0].crashed and sin.raised == {}, "other arguments may do"
    assert manifest.origin is ManifestOrigin.PROBE and manifest.collectives == (collective,)
    assert manifest.unknown == ("a note", "1 operators were not reached in the time given")
    summary = summary_of(manifest)
    assert (summary.operators, summary.pairs) == (3, 4)
    assert summary.verdicts == {"pass": 1, "fail": 1, "error": 2, "not_run": 0}
    assert [(name, fact.dtype) for name, fact in summary.worse] == [("aten.bmm.default", "float16")]


class OneManifest:
    """A ledger that keeps what it is told last."""

    def __init__(self, known: tuple[OperatorManifest, Stack] | None) -> None:
        self.known = known

    def manifest(self, platform: str) -> tuple[OperatorManifest, Stack] | None:
        return self.known

    def put_manifest(self, manifest: OperatorManifest, stack: Stack) -> None:
        self.known = (manifest, stack)


def test_a_worker_that_starts_anew_does_not_take_back_what_was_measured() -> None:
    stack, newer = Stack("cpu", {"torch": "2"}), Stack("cpu", {"torch": "3"})
    declared = OperatorManifest("cpu", "torch", "2", ())
    measured = OperatorManifest("cpu", "torch", "2", (), origin=ManifestOrigin.PROBE)
    ledger = OneManifest((measured, stack))
    tell_stack(ledger, declared, stack)  # type: ignore[arg-type]
    assert ledger.known == (measured, stack)
    tell_stack(ledger, declared, newer)  # type: ignore[arg-type]
    assert ledger.known == (declared, newer), "another stack was never measured"


def test_a_worker_tells_the_control_plane_and_anybody_else_the_database_here(tmp_path: Path) -> None:
    here = OneManifest(None)
    opened: list[bool] = []

    def plane() -> AbstractContextManager[Plane]:
        opened.append(True)
        return nullcontext(SimpleNamespace(ledger=here))  # type: ignore[return-value]

    with told_to(Settings(data_dir=tmp_path), plane) as ledger:
        assert ledger is here
    worker = Settings(data_dir=tmp_path, ledger_url="http://127.0.0.1:1", worker_token=SecretStr("secret"))
    with told_to(worker, plane) as ledger:
        assert isinstance(ledger, HttpLedger)
    assert opened == [True]
