"""What routes of the API share: how pages are asked for, how documents are sent, and which refusals there are."""

import json
from typing import Annotated, Any

from fastapi import Query
from fastapi.responses import Response

from dayzero.domain.canonical import Json
from dayzero.web import api_shapes as shapes

Limit = Annotated[int, Query(ge=1, le=1000, description="Most rows of a page.")]
Cursor = Annotated[str | None, Query(max_length=20_000, description="`next` of the page before.")]
OnPlatform = Annotated[str | None, Query(max_length=1024, description="Only on this platform, by its slug.")]
OfModel = Annotated[str | None, Query(max_length=1024, description="Only this model, by its name or an alias.")]
ASKED = shapes.answers(401, 403, 422, 503)
NAMED = shapes.answers(401, 403, 404, 422, 503)


def shaped(shape: Any) -> dict[int | str, dict[str, Any]]:
    """The answer of a route, for the API's document."""
    return {200: {"model": shape, "description": "What was asked for."}}


def json_answer(document: Json) -> Response:
    """A document as it is sent; what is no Unicode in it is replaced."""
    body = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Response(body.encode("utf-8", "replace"), media_type="application/json")


def paged(document: dict[str, Json], after: str | None) -> Response:
    """A page of rows, with `next` while more follow."""
    return json_answer(document if after is None else document | {"next": after})
