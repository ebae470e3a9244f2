"""The SQL of a predicate takes the same rows as `matches`, on a real PostgreSQL."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from predicate_strategies import PREDICATES, ROWS
from sqlalchemy import BigInteger, Column, Connection, DateTime, Double, MetaData, Table, Text, create_engine, insert, select

from dayzero.adapters.store.predicate_sql import where
from dayzero.stages.predicates.matching import matches
from dayzero.stages.predicates.text import parse
from dayzero.stages.predicates.tree import FieldKind

pytestmark = pytest.mark.postgres

FIELDS = {
    "model": FieldKind.TEXT,
    "platform": FieldKind.TEXT,
    "weight_bytes": FieldKind.NUMBER,
    "verified_at": FieldKind.TIME,
}
ROWS_TABLE = Table(
    "rows_to_judge",
    MetaData(),
    Column("id", BigInteger, primary_key=True),
    Column("model", Text),
    Column("platform", Text),
    Column("weight_bytes", Double),
    Column("verified_at", DateTime(timezone=True)),
)


@pytest.fixture(scope="module")
def connection(postgres_server: str) -> Iterator[Connection]:
    engine = create_engine(postgres_server)
    with engine.connect() as opened:
        ROWS_TABLE.metadata.create_all(opened)
        opened.commit()
        yield opened
        ROWS_TABLE.metadata.drop_all(opened)
        opened.commit()
    engine.dispose()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=PREDICATES, rows=st.lists(ROWS, max_size=6))
@example(text='not (model = "a")', rows=[{"model": None, "platform": None, "weight_bytes": None, "verified_at": None}])
@example(text='model ~ "a\\\\*"', rows=[{"model": "a\\b", "platform": "a", "weight_bytes": 0.0, "verified_at": None}])
def test_sql_agrees(connection: Connection, text: str, rows: list[dict[str, object]]) -> None:
    predicate = parse(text, FIELDS)
    numbered = [{"id": number, **row} for number, row in enumerate(rows)]
    with connection.begin() as transaction:
        if numbered:
            connection.execute(insert(ROWS_TABLE), numbered)
        found = connection.execute(select(ROWS_TABLE.c.id).where(where(predicate, dict(ROWS_TABLE.c)))).scalars().all()
        transaction.rollback()
    assert set(found) == {row["id"] for row in numbered if matches(predicate, row)}
