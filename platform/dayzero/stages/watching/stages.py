"""How far a repository has come, and whether a rule takes it. Pure: files and an index in, a judgement out."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from dayzero.domain.findings import Finding, Severity
from dayzero.domain.release import FileRole, Release, ReleaseStage, RepoFile
from dayzero.domain.watching import RepoListing, Rule, RuleDecision
from dayzero.stages.watching.roles import PICKLE_WEIGHT_SUFFIXES, SAFE_WEIGHT_SUFFIXES

_NUMBERED = re.compile(r"^(?P<stem>.+)-(?P<number>\d{1,6})-of-(?P<count>\d{1,6})(?P<suffix>\.[a-z0-9]+)$")
_NAMES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class StageJudgement:
    """The stage of a repository's files, the reason in one sentence, and what was noticed beside it."""

    stage: ReleaseStage
    reason: str
    findings: tuple[Finding, ...] = ()


def index_to_read(files: Iterable[RepoFile]) -> RepoFile | None:
    """The weights index that decides whether the release is live: safetensors before pickles, at the top of the
    repository; None when there is none."""
    found = [file for file in files if file.role is FileRole.WEIGHTS_INDEX and "/" not in file.path]
    return min(found, key=lambda file: (not file.path.endswith(".safetensors.index.json"), file.path), default=None)


def stage_of(files: Sequence[RepoFile], index: bytes | None) -> tuple[ReleaseStage, str]:
    """The stage and its reason; see judge_files."""
    judged = judge_files(files, index)
    return judged.stage, judged.reason


def judge_files(files: Sequence[RepoFile], index: bytes | None) -> StageJudgement:
    """Tell announced (neither configuration nor weights), configuration only, partial and live weights apart.

    `index` is the content of the file that index_to_read named (None: there is none, or it could not be read). Live means:
    every file that the index names is there and not empty; without an index, a complete -00001-of-0000N set or one
    unnumbered weight file. Only files at the top of the repository count: copies in other formats lie in folders.
    """
    weights = [file for file in files if file.role is FileRole.WEIGHTS and "/" not in file.path]
    has_config = any(file.path == "config.json" for file in files)
    if not weights:
        if has_config:
            return StageJudgement(ReleaseStage.CONFIG, "config.json is there, and no weight file yet")
        return StageJudgement(ReleaseStage.ANNOUNCED, f"{len(files)} files, and neither config.json nor weights among them")
    findings = _findings_of(weights, has_config)
    stage, reason = _judge_weights(weights, index)
    return StageJudgement(stage, reason, findings)


def _findings_of(weights: Sequence[RepoFile], has_config: bool) -> tuple[Finding, ...]:
    suffixes = {PurePosixPath(file.path).suffix.lower() for file in weights}
    findings = []
    if suffixes & PICKLE_WEIGHT_SUFFIXES and not suffixes & SAFE_WEIGHT_SUFFIXES:
        findings.append(
            Finding(
                "pickle_only",
                weights[0].path,
                "The weights are there only as Python pickles, which are not loaded.",
                Severity.ERROR,
                {"weight_files": len(weights), "weight_bytes": sum(file.size_bytes for file in weights)},
            )
        )
    if not has_config:
        findings.append(
            Finding("no_configuration", "config.json", "There are weights, but no config.json that says what they are.")
        )
    return tuple(findings)


def is_pickle_only(files: Sequence[RepoFile]) -> bool:
    """Whether the only weights at the top of the repository are pickles."""
    return any(finding.code == "pickle_only" for finding in judge_files(files, None).findings)


def _judge_weights(weights: Sequence[RepoFile], index: bytes | None) -> tuple[ReleaseStage, str]:
    if index is not None:
        return _judge_by_index({file.path: file.size_bytes for file in weights}, index)
    best = _preferred(weights)
    numbered = [match for file in best if file.size_bytes > 0 and (match := _NUMBERED.match(file.path))]
    if numbered:
        return _judge_numbered(numbered)
    whole = [file for file in best if file.size_bytes > 0]
    if whole:
        return ReleaseStage.WEIGHTS, f"{whole[0].path} is there, whole ({whole[0].size_bytes} bytes)"
    return ReleaseStage.WEIGHTS_PARTIAL, f"{best[0].path} is empty"


def _preferred(weights: Sequence[RepoFile]) -> Sequence[RepoFile]:
    """The weight files of the safest format that is there."""
    for suffixes in (SAFE_WEIGHT_SUFFIXES, PICKLE_WEIGHT_SUFFIXES):
        found = [file for file in weights if PurePosixPath(file.path).suffix.lower() in suffixes]
        if found:
            return found
    return weights


def _judge_numbered(numbered: Sequence[re.Match[str]]) -> tuple[ReleaseStage, str]:
    sets: dict[tuple[str, int, str], set[int]] = {}
    for match in numbered:
        key = (match["stem"], int(match["count"]), match["suffix"])
        sets.setdefault(key, set()).add(int(match["number"]))
    best = ""
    for (stem, count, suffix), numbers in sorted(sets.items()):
        there = sum(1 for number in numbers if 1 <= number <= count)
        best = f"{there} of {count} files of {stem}-*{suffix} are there"
        if count > 0 and there == count:
            return ReleaseStage.WEIGHTS, best
    return ReleaseStage.WEIGHTS_PARTIAL, best


def _judge_by_index(sizes: Mapping[str, int], index: bytes) -> tuple[ReleaseStage, str]:
    named = names_in_index(index)
    if isinstance(named, str):
        return ReleaseStage.WEIGHTS_PARTIAL, f"the weights index is not usable: {named}"
    missing = sorted(name for name in named if sizes.get(name, 0) == 0)
    there = f"{len(named) - len(missing)} of {len(named)} files that the index names are there"
    if not missing:
        return ReleaseStage.WEIGHTS, there
    more = f" and {len(missing) - _NAMES_SHOWN} more" if len(missing) > _NAMES_SHOWN else ""
    return ReleaseStage.WEIGHTS_PARTIAL, f"{there}; missing: {', '.join(missing[:_NAMES_SHOWN])}{more}"


def names_in_index(index: bytes) -> frozenset[str] | str:
    """The file names in a weights index (`weight_map`: tensor → file), or one clause that says why it is not one."""
    try:
        document = json.loads(index)
    except (ValueError, RecursionError):
        return "it is not JSON"
    weight_map = document.get("weight_map") if isinstance(document, dict) else None
    if not isinstance(weight_map, dict) or not weight_map:
        return "it has no weight_map"
    names = set()
    for name in weight_map.values():
        if not isinstance(name, str) or not name:
            return "its weight_map names something that is no file"
        if name.startswith("/") or "\\" in name or "\0" in name or ".." in name.split("/"):
            return f"it names {name!r}, which lies outside the repository"
        names.add(name)
    return frozenset(names)


def decide(rule: Rule, listing: RepoListing, release: Release | None) -> RuleDecision:
    """Whether a rule takes a repository, and why or why not.

    A folder's name is its last two parts, as a hub would name it. Without a release only the listing is judged; the
    minimum size is judged for live weights alone.
    """
    name = _short_name(listing.repo_id)
    author = name.partition("/")[0] if "/" in name else ""
    if rule.author and author.casefold() != rule.author.casefold():
        return RuleDecision(False, f"author {author or 'unknown'} is not {rule.author}")
    if not fnmatchcase(name, rule.name_pattern):
        return RuleDecision(False, f"{name} does not match {rule.name_pattern}")
    if rule.task and listing.task != rule.task:
        return RuleDecision(False, f"task {listing.task or 'unknown'} is not {rule.task}")
    if release is not None and release.stage is ReleaseStage.WEIGHTS and release.weight_bytes() < rule.minimum_bytes:
        return RuleDecision(
            False, f"weights of {release.weight_bytes()} bytes are below the rule's minimum of {rule.minimum_bytes} bytes"
        )
    return RuleDecision(True, "the rule takes it")


def _short_name(repo_id: str) -> str:
    return "/".join(repo_id.rstrip("/").split("/")[-2:]) if repo_id.startswith("/") else repo_id
