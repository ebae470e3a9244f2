"""A compatibility list as large as a busy year: models × platforms × history, written row by row in bulk.

`python tests/seeding.py URL` seeds a database: 200 models × 20 platforms, 100,000 versions of entries.
"""

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Engine, insert

from dayzero.adapters.store.connection import open_engine
from dayzero.adapters.store.tables import AdaptationRow, ModelRow, PlatformRow, ReleaseRow, SourceRow
from dayzero.adapters.store.tables_ageing import RerunRow
from dayzero.adapters.store.tables_failures import FailureHitRow, FailureRow
from dayzero.adapters.store.tables_reports import ReportRow
from dayzero.adapters.store.tables_telling import EntryRow, EventRow, SightingRow, WorkerRow
from dayzero.codec import dump
from dayzero.domain.canonical import digest, plain
from dayzero.domain.entry import (
    CompatibilityEntry,
    Correctness,
    DayZeroClock,
    EntryKey,
    Freshness,
    Lifecycle,
    Performance,
)
from dayzero.domain.planning import Degrees
from dayzero.domain.release import FileRole, HubKind, Release, ReleaseStage, RepoFile, content_id_of
from dayzero.domain.told_results import Claim, Saying
from dayzero.domain.verdict import Check, CheckLayer, Grade, Measurement, Mode, Verdict

PLATFORMS = (
    "a100", "ascend-910b-376t", "ascend-910c", "b200", "cloudmatrix-384", "cpu", "gaudi3", "gb200-nvl72", "h100", "h20",
    "h200", "mi300x", "mi355x", "mlu590", "s5000", "simnpu", "tpu-v5p", "tpu-v6e", "trn2", "trn3",
)  # fmt: skip
FAMILIES = ("Kestrel", "Heron", "Lynx", "Tapir", "Marten", "Ibis", "Quoll", "Sable", "Okapi", "Civet")
GAPS = ("attention.mla", "moe.router.grouped_topk", "gemm.fp8_block", "linear_attention.gated_delta", "norm.rms")
BATCH = 2000


@dataclass(frozen=True, slots=True)
class Seeding:
    """How much of everything, from which seed, up to which moment."""

    models: int = 200
    platforms: int = 20
    entries: int = 100_000
    seed: int = 1
    until: datetime = datetime(2026, 11, 30, 12, tzinfo=UTC)


def seed(engine: Engine, shown: Seeding) -> None:
    """Fill an empty database."""
    chance = random.Random(shown.seed)
    pairs = _works(engine, shown, chance)
    rows: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []
    newest: dict[str, dict[str, Any]] = {}
    for number in range(shown.entries):
        # The history first; the last rounds leave every pair with what stands.
        work = pairs[number % len(pairs)]
        at = shown.until - timedelta(minutes=(shown.entries - number) * 525_600 / shown.entries / 2)
        row = entry_row(work, chance, at)
        rows.append(row)
        events.append(_event(row, at, chance))
        if len(rows) == BATCH or number == shown.entries - 1:
            with engine.begin() as connection:
                connection.execute(insert(EntryRow), rows)
                connection.execute(insert(EventRow), events)
            rows, events = [], []
        newest[work["work"]["id"]] = row
    with engine.begin() as connection:
        _remembering(connection, list(newest.values()))
        connection.exec_driver_sql("ANALYZE")


def _id(chance: random.Random) -> str:
    return str(UUID(int=chance.getrandbits(128), version=4))


def model_names(models: int) -> Iterator[str]:
    """Names as hubs have them."""
    for number in range(models):
        family = FAMILIES[number % len(FAMILIES)]
        yield f"{family.lower()}-labs/{family}-V{number // len(FAMILIES) + 1}-{(number * 7) % 400 + 1}B"


def _works(engine: Engine, shown: Seeding, chance: random.Random) -> list[dict[str, Any]]:
    """Models, releases, platforms and an adaptation a pair; what entries need to know of each."""
    start = shown.until - timedelta(days=200)
    platforms = PLATFORMS[: shown.platforms]
    models, releases, works, pairs = [], [], [], []
    for name in model_names(shown.models):
        live = start + timedelta(hours=chance.random() * 4000)
        model = {"id": _id(chance), "name": name, "created_at": live}
        files = (
            RepoFile("config.json", 900, FileRole.CONFIGURATION, git_blob_id=digest(name)[:40]),
            RepoFile("model.safetensors", 10**9, FileRole.WEIGHTS, sha256=digest([name])),
        )
        noun = Release(
            HubKind.HUGGING_FACE, name, digest(name)[:40], ReleaseStage.WEIGHTS, files, content_id_of(files), None, live
        )
        release = {
            "id": _id(chance), "model_id": model["id"], "hub": "hf", "endpoint": "", "repo_id": name, "revision": noun.revision,
            "stage": "weights", "content_id": noun.content_id, "configuration_digest": digest(files[0]), "document": dump(noun),
            "published_at": live, "recorded_at": live, "config_seen_at": live, "weights_seen_at": live,
        }  # fmt: skip
        models.append(model)
        releases.append(release)
        for platform in platforms:
            work = _work(release, platform, live, chance)
            works.append(work)
            pairs.append({"name": name, "release": release, "work": work, "live": live})
    with engine.begin() as connection:
        connection.execute(insert(PlatformRow), [{"slug": slug, "created_at": start} for slug in platforms])
        connection.execute(insert(ModelRow), models)
        connection.execute(insert(ReleaseRow), releases)
        connection.execute(insert(AdaptationRow), works)
        _watching(connection, shown, chance)
    return pairs


def _watching(connection: Any, shown: Seeding, chance: random.Random) -> None:
    source = {
        "id": _id(chance), "hub": "hf", "location": "https://huggingface.co", "rule": {"name_pattern": "*"},
        "rule_digest": "seeded", "enabled": True, "created_at": shown.until, "last_polled_at": shown.until,
    }  # fmt: skip
    connection.execute(insert(SourceRow), [source])
    noted = [
        {
            "source_id": source["id"], "repo_id": f"someone/finetune-{number}", "failed": False,
            "reason": "its weights have 120 MB, fewer than the rule's 1 GB", "seen_at": shown.until - timedelta(minutes=number),
        }
        for number in range(shown.models)
    ]  # fmt: skip
    connection.execute(insert(SightingRow), noted)
    workers = [
        {
            "id": _id(chance), "platform": slug, "stack_fingerprint": "f" * 64, "devices": 8,
            "first_seen_at": shown.until, "seen_at": shown.until,
        }
        for slug in PLATFORMS[: shown.platforms]
    ]  # fmt: skip
    connection.execute(insert(WorkerRow), workers)


def _work(release: dict[str, Any], platform: str, live: datetime, chance: random.Random) -> dict[str, Any]:
    state = chance.choices(("done", "running", "requested", "failed", "blocked"), (90, 2, 2, 3, 3))[0]
    return {
        "id": _id(chance), "purpose": "adapt", "release_id": release["id"], "model_id": release["model_id"],
        "content_id": release["content_id"], "platform": platform, "mode": "inference", "state": state,
        "attempt": 0 if state == "requested" else 1, "attempts_before": 0, "requested_at": live,
        "claimant": "seed" if state == "running" else None, "heartbeat_at": live if state != "requested" else None,
        "stage": "layers" if state == "running" else None,
        "reason": None if state in ("done", "running", "requested") else f"{state}: no worker serves {platform}.",
        "finished_at": live + timedelta(hours=3) if state not in ("running", "requested") else None,
    }  # fmt: skip


def entry_row(pair: dict[str, Any], chance: random.Random, at: datetime) -> dict[str, Any]:
    """A version of an entry of the pair, with a document like a real one's."""
    work, release = pair["work"], pair["release"]
    correctness = chance.choices(list(Correctness), (8, 17, 60, 15))[0]
    failing = correctness is Correctness.FAILING
    degrees = Degrees(tp=chance.choice((1, 2, 4, 8)))
    key = EntryKey(
        pair["name"], release["content_id"], work["platform"], "f" * 64, "transformers", "bfloat16", degrees, Mode.INFERENCE
    )
    checks = tuple(
        Check(layer, f"check.{number}", "tp1", Verdict.FAIL if failing and number == 3 else Verdict.PASS, Grade.MEASURED,
              "its error is within twice that of the native dtype", 0.5 + number, 2.0 + number, "ratio", 64)
        for number, layer in enumerate(list(CheckLayer) * 4)
    )  # fmt: skip
    verified = at if correctness is Correctness.VERIFIED else None
    clock = DayZeroClock(pair["live"], pair["live"], pair["live"], pair["live"], pair["live"], verified, verified)
    gaps = tuple(chance.sample(GAPS, chance.choice((0, 0, 0, 1, 2))))
    entry = CompatibilityEntry(
        key, "inference-3", Lifecycle.DONE, correctness, chance.choice(list(Performance)),
        Freshness.STALE if chance.random() < 0.1 else Freshness.CURRENT, Grade.MEASURED,
        "1 of 16 checks fails: check.3." if failing else "All required checks pass.", checks,
        tuple(Measurement(name, chance.random(), "s") for name in ("ttft_s", "tpot_s")), gaps=gaps, clock=clock,
        evidence="measured on the platform",
    )  # fmt: skip
    return {
        "id": f"{chance.getrandbits(128):032x}", "key_digest": digest(key), "content_digest": digest([key, str(at)]),
        "predicted": False, "model_id": release["model_id"], "release_id": release["id"], "adaptation_id": work["id"],
        "model": pair["name"], "content_id": release["content_id"], "platform": work["platform"],
        "stack_fingerprint": key.stack_fingerprint, "engine": key.engine, "dtype": key.dtype, "plan": str(degrees),
        "devices": degrees.world, "mode": "inference", "method": entry.method, "lifecycle": "done",
        "correctness": correctness.value, "performance": entry.performance.value, "freshness": entry.freshness.value,
        "grade": "measured", "reason": entry.reason, "checks_passed": 16 - failing, "checks_failed": int(failing),
        "checks_error": 0, "checks_not_run": 0, "known_gaps": len(gaps), "bundle": None, "recorded_at": at,
        "document": plain(entry), "announced_at": pair["live"], "config_seen_at": pair["live"],
        "weights_live_at": pair["live"], "detected_at": pair["live"], "staged_at": pair["live"],
        "first_token_at": verified, "verified_at": verified,
    }  # fmt: skip


def _remembering(connection: Any, newest: list[dict[str, Any]]) -> None:
    """What the newest entries lack as failures, stale ones in the queue of re-runs, and a claim about every third."""
    failures, hits, reruns, claims = {}, [], [], []
    for number, row in enumerate(newest):
        at, platform = row["recorded_at"], row["platform"]
        for gap in row["document"]["gaps"]:
            said = f"{platform} does not offer {gap}"
            name = digest([platform, gap])[:16]
            failures[name] = {
                "signature": name, "kind": "missing", "check_name": "operators.coverage", "operator": gap, "dtypes": [],
                "shape_class": "", "platform": platform, "symptom": said, "first_seen_at": at, "last_seen_at": at,
            }  # fmt: skip
            hits.append({
                "signature": name, "adaptation_id": row["adaptation_id"], "model": row["model"], "platform": platform,
                "stack_fingerprint": "f" * 64, "said": said, "seen_at": at,
            })  # fmt: skip
        if row["freshness"] == "stale":
            reruns.append({
                "id": digest(row["id"])[:32], "adaptation_id": row["adaptation_id"], "entry_id": row["id"],
                "platform": platform, "reasons": [f"the stack of {platform} is another: torch 2.7 is 2.8"], "queued_at": at,
            })  # fmt: skip
        if number % 3 == 0:
            claim = Claim(row["model"], platform, Saying.WORKS, "results.csv", "vllm", "bfloat16", 8, figures={"ttft_s": 0.4})
            claims.append({
                "id": digest([row["id"]])[:32], "digest": digest(claim), "kind": "declared", "model": row["model"],
                "platform": platform, "claim": plain(claim), "state": "accepted", "told_by": "operator", "created_at": at,
            })  # fmt: skip
    tables = ((FailureRow, list(failures.values())), (FailureHitRow, hits), (RerunRow, reruns), (ReportRow, claims))
    for table, rows in tables:
        if rows:
            connection.execute(insert(table), rows)


def _event(row: dict[str, Any], at: datetime, chance: random.Random) -> dict[str, Any]:
    fields = {"event": "dayzero.entry.changed", "model": row["model"], "platform": row["platform"], "entry_id": row["id"]}
    return {
        "id": _id(chance), "kind": "dayzero.entry.changed", "subject": row["model"], "occurred_at": at, "fields": fields,
        "adaptation_id": row["adaptation_id"], "emitted_at": at, "fanned_out_at": at,
    }  # fmt: skip


if __name__ == "__main__":
    seed(open_engine(sys.argv[1]), Seeding())
