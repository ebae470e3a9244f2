"""The bundle: everything that someone needs to run a verified model the way it was verified."""

import csv
import io
import json
import re

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.canonical import plain
from dayzero.domain.entry import CompatibilityEntry
from dayzero.domain.plan import PlanReport
from dayzero.domain.platforms import PlatformProfile, Stack
from dayzero.domain.precision_policy import PrecisionPolicy
from dayzero.domain.release import HubKind, Release
from dayzero.domain.shards import ShardManifest
from dayzero.stages.bundle.escape import clean, compose_text, csv_text, markdown_table, shell_word
from dayzero.stages.bundle.file import BundleFile
from dayzero.stages.bundle.generate import GENERATE_SCRIPT
from dayzero.stages.bundle.guide import PERFORMANCE_HEADER, deployment_guide, performance_rows
from dayzero.stages.bundle.plan import plan_files
from dayzero.stages.bundle.precision import PRECISION_SCRIPT

TORCH_ENGINES = ("torch", "transformers")
BASE_IMAGE = "python:3.11-slim"
PINNED = ("torch", "transformers", "tokenizers", "safetensors", "accelerate", "vllm")
"""Components of a stack that an image installs, in this order; all else comes as their dependency."""

_VERSION = re.compile(r"[0-9][0-9A-Za-z.!-]*")


def render_bundle(
    entry: CompatibilityEntry,
    *,
    spec: ModelSpec | None,
    plan: PlanReport | None,
    manifest: ShardManifest | None,
    release: Release,
    stack: Stack | None,
    profile: PlatformProfile | None = None,
    policy: PrecisionPolicy | None = None,
) -> tuple[BundleFile, ...]:
    """The files of an entry's bundle, sorted by path; what is not known is said to be unknown, never made up."""
    files = [
        BundleFile("launch.sh", launch_script(entry, release), executable=True),
        BundleFile("compose.yaml", compose_file(entry, release)),
        BundleFile("Dockerfile", dockerfile(entry, policy)),
        BundleFile("requirements.txt", requirements_file(stack)),
        BundleFile("README.md", deployment_guide(entry, spec, plan, manifest, release, stack, profile)),
        BundleFile("performance.md", performance_markdown(entry)),
        BundleFile("performance.csv", performance_csv(entry)),
        BundleFile("entry.json", json.dumps(plain(entry), indent=2, sort_keys=True) + "\n"),
    ]
    if entry.key.engine in TORCH_ENGINES:
        files.append(BundleFile("generate.py", GENERATE_SCRIPT))
    if policy is not None:
        files.append(BundleFile("precision.py", PRECISION_SCRIPT))
        files.append(BundleFile("precision_policy.json", json.dumps(plain(policy), indent=2, sort_keys=True) + "\n"))
    if spec is not None and profile is not None and plan is not None and plan.plan is not None:
        files += plan_files(plan.plan, spec, profile, plan, entry.key.model)
    return tuple(sorted(files, key=lambda file: file.path))


def image_tag(model: str, content_id: str) -> str:
    """A valid image name for a model, whatever its name holds: dayzero/NAME:CONTENT."""
    name = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")[-100:].strip("-") or "model"
    return f"dayzero/{name}:{re.sub(r'[^A-Za-z0-9]', '', content_id)[:12] or 'unknown'}"


def launch_script(entry: CompatibilityEntry, release: Release) -> str:
    """A bash script that fetches the pinned release, unless MODEL_DIR names it, and runs it under the verified plan."""
    return "\n".join(
        [
            "#!/usr/bin/env bash",
            "# Runs the model the way it was verified. MODEL_DIR: a folder that holds the release already.",
            "set -euo pipefail",
            'here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"',
            f"repository={shell_word(release.repo_id)}",
            f"revision={shell_word(release.revision)}",
            *_model_folder(release),
            *_command(entry),
            "",
        ]
    )


def _model_folder(release: Release) -> tuple[str, ...]:
    if release.hub is HubKind.HUGGING_FACE:
        return (
            'model_dir="${MODEL_DIR:-$here/model}"',
            'if [[ -z "${MODEL_DIR:-}" ]]; then',
            '  hf download --revision "$revision" --local-dir "$model_dir" -- "$repository"',
            "fi",
        )
    return (
        'model_dir="${MODEL_DIR:-$repository}"',
        'if [[ ! -d "$model_dir" ]]; then',
        '  echo "There is no folder $model_dir: set MODEL_DIR to one that holds revision $revision." >&2',
        "  exit 2",
        "fi",
    )


def _command(entry: CompatibilityEntry) -> tuple[str, ...]:
    degrees = entry.key.plan
    sizes = f"--tp {degrees.tp} --pp {degrees.pp} --ep {degrees.ep}"
    if entry.key.engine in TORCH_ENGINES and degrees.dp == 1 and (degrees.tp == 1 or degrees.pp == 1):
        return (
            f'exec torchrun --standalone --nproc-per-node {degrees.world} "$here/generate.py" \\',
            f'  --model-dir "$model_dir" --dtype {shell_word(entry.key.computing.dtype)} {sizes} "$@"',
        )
    if entry.key.engine == "vllm":
        parallel = f"--tensor-parallel-size {degrees.tp} --pipeline-parallel-size {degrees.pp}"
        parallel += f" --data-parallel-size {degrees.dp}" if degrees.dp > 1 else ""
        parallel += " --enable-expert-parallel" if degrees.ep > 1 else ""
        return (f'exec vllm serve "$model_dir" --dtype {shell_word(entry.key.computing.dtype)} {parallel} "$@"',)
    what = shell_word(f"No launch command is known for engine {entry.key.engine} under plan {degrees}.")
    return (f"echo {what} >&2", "exit 3")


def compose_file(entry: CompatibilityEntry, release: Release) -> str:
    """A Compose file that builds the bundle's image and runs the launch script on the model mounted at /model."""
    source = release.repo_id if release.hub is HubKind.DIRECTORY else "./model"
    return "\n".join(
        [
            "services:",
            "  model:",
            "    build: .",
            f"    image: {compose_text(image_tag(entry.key.model, entry.key.content_id))}",
            "    environment:",
            '      MODEL_DIR: "/model"',
            "    volumes:",
            "      - type: bind",
            f"        source: {compose_text(source)}",
            "        target: /model",
            "        read_only: true",
            '    shm_size: "2gb"',
            "    labels:",
            f"      dayzero.model: {compose_text(entry.key.model)}",
            f"      dayzero.revision: {compose_text(release.revision)}",
            f"      dayzero.content_id: {compose_text(entry.key.content_id)}",
            "",
        ]
    )


def dockerfile(entry: CompatibilityEntry, policy: PrecisionPolicy | None = None) -> str:
    """The image of the bundle; its base is an argument, for platforms have images of their own."""
    generate = " generate.py" if entry.key.engine in TORCH_ENGINES else ""
    generate += " precision.py precision_policy.json" if policy is not None else ""
    return "\n".join(
        [
            f"ARG BASE={BASE_IMAGE}",
            "FROM ${BASE}",
            "# For machines without an NVIDIA card: --build-arg INDEX=https://download.pytorch.org/whl/cpu",
            "ARG INDEX=",
            "WORKDIR /bundle",
            "COPY requirements.txt .",
            'RUN if [ -s requirements.txt ]; then pip install --no-cache-dir ${INDEX:+--extra-index-url "$INDEX"} \\',
            "    -r requirements.txt; fi",
            f"COPY launch.sh entry.json{generate} ./",
            'ENTRYPOINT ["./launch.sh"]',
            "",
        ]
    )


def requirements_file(stack: Stack | None) -> str:
    """The stack's components that pip can install, pinned; a build's local part (+cpu) is left to the index."""
    if stack is None:
        return ""
    pins = []
    for name in PINNED:
        version = stack.components.get(name, "").split("+")[0]
        if _VERSION.fullmatch(version):
            pins.append(f"{name}=={version}\n")
    return "".join(pins)


def performance_markdown(entry: CompatibilityEntry) -> str:
    """What was measured, as a Markdown table."""
    return f"# Measured performance\n\n{markdown_table(PERFORMANCE_HEADER, performance_rows(entry))}\n"


def performance_csv(entry: CompatibilityEntry) -> str:
    """What was measured, as CSV; no cell is a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(PERFORMANCE_HEADER)
    for measurement in entry.measurements:
        conditions = "; ".join(f"{name}={value}" for name, value in sorted(measurement.conditions.items()))
        words = csv_text(measurement.name), measurement.value, csv_text(measurement.unit), measurement.samples
        writer.writerow((*words, csv_text(clean(conditions))))
    return text.getvalue()
