"""What a repository's own files say of it in listings: task, library, tags, model type."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

_LONGEST_CARD_BYTES = 1 << 20
_TASK_OF_HEAD = {
    "ForCausalLM": "text-generation",
    "LMHeadModel": "text-generation",
    "ForConditionalGeneration": "image-text-to-text",
    "ForMaskedLM": "fill-mask",
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForQuestionAnswering": "question-answering",
}
"""The task that transformers' head classes serve (transformers documentation, task guides)."""


@dataclass(frozen=True, slots=True)
class Card:
    """What listings show. None where the files do not say."""

    task: str | None
    library: str | None
    tags: tuple[str, ...]
    model_type: str | None
    architectures: tuple[str, ...]


def read_card(readme: Path | None, config: Path | None) -> Card:
    """The card from README.md's front matter and config.json; whatever is malformed counts as not said."""
    said = _front_matter(_small_text(readme))
    configured = _mapping(_parse_json(_small_text(config)))
    architectures = tuple(name for name in _strings(configured.get("architectures")))
    model_type = _text(configured.get("model_type"))
    library = _text(said.get("library_name")) or ("transformers" if model_type else None)
    task = _text(said.get("pipeline_tag")) or _task_of(architectures)
    tags = [*_strings(said.get("tags")), library, model_type, task]
    licence = _text(said.get("license"))
    tags.append(f"license:{licence}" if licence else None)
    return Card(task, library, tuple(dict.fromkeys(tag for tag in tags if tag)), model_type, architectures)


def _task_of(architectures: tuple[str, ...]) -> str | None:
    for architecture in architectures:
        for head, task in _TASK_OF_HEAD.items():
            if architecture.endswith(head):
                return task
    return None


def _small_text(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        with path.open("rb") as stream:
            return stream.read(_LONGEST_CARD_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _front_matter(text: str) -> Mapping[str, object]:
    lines = text.splitlines()
    if not lines or lines[0].strip() != "---" or "---" not in (line.strip() for line in lines[1:]):
        return {}
    end = next(number for number, line in enumerate(lines[1:], 1) if line.strip() == "---")
    try:
        return _mapping(yaml.safe_load("\n".join(lines[1:end])))
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}


def _parse_json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.isprintable() and value else None


def _strings(value: object) -> list[str]:
    return [item for item in value if _text(item)] if isinstance(value, list) else []
