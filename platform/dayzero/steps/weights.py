"""Steps on the day, before a byte of weights is moved: what the headers say, and the exact plan."""

from dayzero.codec import load
from dayzero.domain.adaptation import Lease
from dayzero.domain.architecture import ModelSpec
from dayzero.domain.plan import PlanReport
from dayzero.domain.planning import Degrees
from dayzero.domain.release import FileRole, Release
from dayzero.domain.reports import StepReport
from dayzero.domain.results import ResultKey, result_key
from dayzero.domain.tensors import CheckpointIndex
from dayzero.errors import BlockedError
from dayzero.stages.entries.deciding import plan_check
from dayzero.stages.headers.files import disagreement
from dayzero.steps.contract import Bench
from dayzero.steps.headers import checkpoint_index
from dayzero.steps.keeping import Kept, keep
from dayzero.steps.planning import plan_headline, plan_rows, planned
from dayzero.steps.prestaging import (
    KV_DTYPE,
    about,
    configuration,
    other_than_usual,
    require_reference,
    structure,
    structure_of,
    subject_of,
)
from dayzero.steps.unpickling import SUFFIX, converted, has_headers, is_pickled, require_readable


def require_agreement(release: Release, index: CheckpointIndex) -> None:
    """BlockedError with what is missing and what is in no index, when index, files and headers disagree."""
    wrong = disagreement(index.findings)
    if wrong is not None:
        raise BlockedError(
            f"index, files and headers of {release.repo_id} at {release.revision[:12]} disagree: {wrong}.",
            remedy="Wait until the publisher has mended it; a new commit is seen by the watch.",
        )


def headers(bench: Bench, lease: Lease) -> Kept[CheckpointIndex]:
    """Every tensor of the checkpoint, read from the headers by range; of pickles, from what they are converted to here."""
    release = subject_of(bench, lease).release
    require_readable(bench, release)

    def read() -> CheckpointIndex:
        with about(release):
            return converted(bench, release).index if is_pickled(release) else checkpoint_index(bench.hub_of(release), release)

    return keep(bench.ledger, lease, _headers_key(release), CheckpointIndex, read)


def _headers_key(release: Release) -> ResultKey:
    roles = (FileRole.WEIGHTS, FileRole.WEIGHTS_INDEX)
    files = sorted((file.path, file.sha256 or file.git_blob_id or "") for file in release.files if file.role in roles)
    return result_key("headers", 2, files)


def _not_yet_known(bench: Bench, release: Release) -> bool:
    """Whether the release's tensors are in pickles that nobody has converted yet: only the platform does."""
    require_readable(bench, release)
    return is_pickled(release) and bench.ledger.find_result(_headers_key(release)) is None


def full_structure(bench: Bench, lease: Lease, kv_dtype: str = KV_DTYPE) -> Kept[ModelSpec]:
    """The model's structure from its configuration and its tensor headers together; BadInputError names the release."""
    config = configuration(bench, lease).noun
    index = headers(bench, lease).noun
    release = subject_of(bench, lease).release
    key = result_key("structure.weights", 2, config.text, config.side or "", index, *other_than_usual(kv_dtype))

    def read() -> ModelSpec:
        with about(release):
            return structure_of(config, index, kv_dtype)

    return keep(bench.ledger, lease, key, ModelSpec, read)


def known_structure(bench: Bench, lease: Lease, kv_dtype: str = KV_DTYPE) -> Kept[ModelSpec]:
    """The model's structure as far as it is known before weights are moved: with its tensor headers, or where there are none
    (no weights yet, allowed pickles) from its configuration alone. BlockedError: weights that cannot be read."""
    release = subject_of(bench, lease).release
    require_readable(bench, release)
    return (full_structure if has_headers(release) else structure)(bench, lease, kv_dtype)


def exact_plan(bench: Bench, lease: Lease) -> Kept[PlanReport]:
    """The plan over the real tensor list: its weight bytes are those of the shard files."""
    return planned(bench, lease, full_structure(bench, lease).noun, headers(bench, lease).noun)


def agreed_plan(bench: Bench, lease: Lease) -> PlanReport:
    """The plan that the control plane made for this adaptation (newest first), or one made here when there is none.

    A worker does not plan again: its own memory would give another plan than the one that was recorded.
    """
    made = [stored for stored in bench.ledger.linked_results(lease.adaptation_id) if stored.key.stage == "plan.weights"]
    return load(PlanReport, made[-1].document) if made else exact_plan(bench, lease).noun


def chosen_degrees(bench: Bench, lease: Lease) -> Degrees:
    """The degrees of the chosen plan; BlockedError with every rejection when nothing fits."""
    report = agreed_plan(bench, lease)
    if report.plan is None:
        ref = subject_of(bench, lease).release.ref
        command = f"dayzero plan {ref.hub.value}:{ref.location} --platform {report.platform}"
        reasons = "; ".join(sorted({no.reason for no in report.rejected})[:5])
        raise BlockedError(
            f"no plan fits {subject_of(bench, lease).adaptation.model} on {report.platform}: {reasons}.",
            remedy=f"See every rejection: {command}; more devices may help.",
        )
    return report.plan.degrees


def headers_step(bench: Bench, lease: Lease) -> StepReport:
    """Read the headers and say where they contradict the configuration; BlockedError where they contradict the index.

    Tensors in pickles are read once the platform has converted them.
    """
    release = subject_of(bench, lease).release
    if _not_yet_known(bench, release):
        return StepReport("headers", f"the {SUFFIX} files are converted on the platform first, in a child without network")
    index = headers(bench, lease).noun
    require_agreement(release, index)
    kept = full_structure(bench, lease)
    findings = (*index.findings, *kept.noun.findings)
    headline = f"{len(index.tensors)} tensors, {index.weight_bytes:,} bytes; {len(findings)} findings"
    rows = tuple({"finding": found.code, "subject": found.subject, "message": found.message} for found in findings[:40])
    return StepReport("headers", headline, kept.reused, rows)


def exact_plan_step(bench: Bench, lease: Lease) -> StepReport:
    """Plan over the real tensors; BlockedError, once the plan is kept, for a model without a reference implementation."""
    if _not_yet_known(bench, subject_of(bench, lease).release):
        require_reference(bench, lease)
        return StepReport("plan-weights", "made on the platform, once the tensors are known")
    kept = exact_plan(bench, lease)
    require_reference(bench, lease)
    verdict = plan_check(kept.noun).verdict
    return StepReport("plan-weights", plan_headline(kept.noun), kept.reused, plan_rows(kept.noun), verdict=verdict)
