"""Claims from the rows of a CSV or JSON file; everything that is wrong in it is said at once, by row and column."""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from datetime import date

from dayzero.domain.told_results import Claim, Saying
from dayzero.errors import BadInputError

MAX_ROWS = 100_000
MAX_TEXT_CHARACTERS = 2000
SHOWN_PROBLEMS = 10
TEXTS = ("model", "platform", "says", "source", "engine", "dtype", "devices", "observed_on", "note")
REQUIRED = ("model", "platform", "says")
_WORDS = {
    "works": Saying.WORKS, "yes": Saying.WORKS, "ok": Saying.WORKS, "pass": Saying.WORKS, "true": Saying.WORKS,
    "partly": Saying.PARTLY, "partial": Saying.PARTLY, "limited": Saying.PARTLY,
    "fails": Saying.FAILS, "no": Saying.FAILS, "fail": Saying.FAILS, "false": Saying.FAILS,
}  # fmt: skip
_REMEDY = (
    "A row has model, platform and says (works, partly or fails); it may have source, engine, dtype, devices, observed_on (ISO "
    "date) and note; every other column is a figure."
)


def read_claims(content: bytes, *, is_json: bool, source: str) -> tuple[Claim, ...]:
    """The claims of a file; `source` is where they are from where a row does not say. BadInputError lists what is wrong."""
    rows = _json_rows(content) if is_json else _csv_rows(content)
    if not rows:
        raise BadInputError("the file holds no rows.", remedy=_REMEDY)
    if len(rows) > MAX_ROWS:
        raise BadInputError(f"the file holds {len(rows)} rows, more than {MAX_ROWS}.", remedy="Split it.")
    claims, problems = [], []
    for number, row in enumerate(rows, 1):
        try:
            claims.append(claim_of(row, source))
        except BadInputError as error:
            problems.append(f"row {number}: {error.message}")
    if problems:
        more = f" and {len(problems) - SHOWN_PROBLEMS} more" if len(problems) > SHOWN_PROBLEMS else ""
        raise BadInputError("; ".join(problems[:SHOWN_PROBLEMS]) + more + ".", remedy=_REMEDY)
    return tuple(claims)


def claim_of(row: Mapping[str, object], source: str) -> Claim:
    """The claim of one row. BadInputError: the first thing that is wrong with it."""
    texts = {name: _text(row.get(name), name) for name in TEXTS}
    for name in REQUIRED:
        if texts[name] is None:
            raise BadInputError(f"{name} is missing")
    says = _WORDS.get((texts["says"] or "").lower())
    if says is None:
        raise BadInputError(f"says {texts['says']!a} is none of works, partly, fails")
    figures = {name: _figure(value, name) for name, value in row.items() if name not in TEXTS and value not in (None, "")}
    return Claim(
        model=texts["model"] or "",
        platform=texts["platform"] or "",
        says=says,
        source=texts["source"] or source,
        engine=texts["engine"],
        dtype=texts["dtype"],
        devices=_devices(texts["devices"]),
        observed_on=_day(texts["observed_on"]),
        note=texts["note"] or "",
        figures=figures,
    )


def _csv_rows(content: bytes) -> Sequence[Mapping[str, object]]:
    try:
        reader = csv.DictReader(io.StringIO(content.decode("utf-8-sig")), strict=True)
        rows = list(reader)
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInputError(f"this is no CSV file in UTF-8: {error}.", remedy=_REMEDY) from error
    if any(None in row for row in rows):
        raise BadInputError("a row has more cells than the first line names.", remedy=_REMEDY)
    return rows


def _json_rows(content: bytes) -> Sequence[Mapping[str, object]]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"this is no JSON file: {type(error).__name__}.", remedy=_REMEDY) from error
    rows = document.get("results") if isinstance(document, dict) else document
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadInputError("the JSON is neither a list of objects nor one with such a list in `results`.", remedy=_REMEDY)
    return rows


def _text(value: object, name: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
        raise BadInputError(f"{name} is no text")
    text = ("true" if value else "false") if isinstance(value, bool) else str(value).strip()
    if len(text) > MAX_TEXT_CHARACTERS:
        raise BadInputError(f"{name} has {len(text)} characters, more than {MAX_TEXT_CHARACTERS}")
    return text or None


def _figure(value: object, name: str) -> float:
    try:
        number = float(str(value))
    except ValueError:
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number):
        raise BadInputError(f"{name[:60]} holds {str(value)[:60]!a}, which is no number")
    return number


def _devices(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) < 10**6):
        raise BadInputError(f"devices {text[:20]!a} is no whole number above 0")
    return int(text)


def _day(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise BadInputError(f"observed_on {text[:30]!a} is no ISO date") from error
