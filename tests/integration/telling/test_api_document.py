"""The API against its own document: whatever is asked, no server error and no answer that the document does not name."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from dayzero.app import Plane
from dayzero.web.door import create_app
from dayzero.web.routers import all_routers
from seeding import Seeding

pytestmark = pytest.mark.postgres

SEEDING = Seeding(models=4, platforms=3, entries=40)
CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)
EXAMPLES = 25


def test_no_server_error_and_no_undocumented_answer(plane: Plane) -> None:
    door = create_app(plane, all_routers(plane))
    described = schemathesis.openapi.from_asgi("/v1/openapi.json", door)
    assert described.raw_schema["openapi"].startswith("3.1")
    tried = []
    for found in described.get_all_operations():
        operation = found.ok()
        tried.append(f"{operation.method} {operation.path}")

        @settings(max_examples=EXAMPLES, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy())
        def asked(case: schemathesis.Case) -> None:
            case.call_and_validate(checks=list(CHECKS))

        asked()
    assert len(tried) >= 11, tried
