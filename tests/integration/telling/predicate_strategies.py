"""Predicates of every shape, with their text, for property tests."""

from datetime import UTC, datetime

from hypothesis import strategies as st

FIELD_TEXTS = ("model", "platform")
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6) | st.text(
    "ab%_\\*?'\"", max_size=6
)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-3, 3)
TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)) | st.sampled_from(
    [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
)


def quoted(text: str) -> str:
    """The text between quotation marks, as the grammar reads it back."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _literal(field: str) -> st.SearchStrategy[str]:
    if field == "weight_bytes":
        return NUMBERS.map(repr)
    if field == "verified_at":
        return TIMES.map(lambda moment: quoted(moment.isoformat()))
    return TEXT.map(quoted)


def _operators(field: str) -> st.SearchStrategy[str]:
    return st.sampled_from(["=", "!=", "~"] if field in FIELD_TEXTS else ["=", "!=", "<", "<=", ">", ">="])


def _comparison(field: str) -> st.SearchStrategy[str]:
    one = st.builds("{} {} {}".format, st.just(field), _operators(field), _literal(field))
    several = st.builds(
        lambda word, values: f"{field} {word} ({', '.join(values)})",
        st.sampled_from(["in", "not in"]),
        st.lists(_literal(field), min_size=1, max_size=3),
    )
    return one | several


PREDICATES: st.SearchStrategy[str] = st.recursive(
    st.sampled_from([*FIELD_TEXTS, "weight_bytes", "verified_at"]).flatmap(_comparison),
    lambda inner: (
        inner.map("not ({})".format)
        | st.builds("({}) and ({})".format, inner, inner)
        | st.builds("({}) or ({})".format, inner, inner)
    ),
    max_leaves=6,
)
"""Texts of predicates over model, platform (text), weight_bytes (number) and verified_at (time)."""

ROWS = st.fixed_dictionaries(
    {
        "model": st.none() | TEXT,
        "platform": st.none() | TEXT,
        "weight_bytes": st.none() | NUMBERS.map(float) | st.just(float("nan")),
        "verified_at": st.none() | TIMES,
    }
)
