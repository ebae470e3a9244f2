"""What a Hugging Face hub sends, parsed once; fields that dayzero does not use are not looked at."""

from dataclasses import dataclass
from datetime import datetime

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as parsed

from dayzero.adapters.hubs.requests import ODD_ANSWER
from dayzero.errors import BadInputError


@parsed(frozen=True)
class SentLfs:
    """LFS metadata of a file."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0)


@parsed(frozen=True)
class SentSibling:
    """A file of a model with its metadata (blobs=true)."""

    rfilename: str
    size: int | None = Field(None, ge=0)
    blobId: str | None = Field(None, pattern=r"^[0-9a-f]{40}$")
    lfs: SentLfs | None = None


@parsed(frozen=True)
class SentModel:
    """A model at a revision (GET /api/models/…/revision/…?blobs=true)."""

    sha: str = Field(pattern=r"^[0-9a-f]{40}$")
    siblings: tuple[SentSibling, ...] = ()
    lastModified: datetime | None = None
    gated: bool | str = False


@parsed(frozen=True)
class SentListing:
    """A model in a listing (GET /api/models)."""

    id: str
    sha: str | None = None
    lastModified: datetime | None = None
    pipeline_tag: str | None = None
    gated: bool | str = False


@dataclass(frozen=True, slots=True)
class ListingPage:
    """One page of a listing: what could be parsed, and how many entries could not."""

    listings: tuple[SentListing, ...]
    malformed: int


_MODEL: TypeAdapter[SentModel] = TypeAdapter(SentModel)
_LISTING: TypeAdapter[SentListing] = TypeAdapter(SentListing)
_PAGE: TypeAdapter[list[object]] = TypeAdapter(list[object])


def parse_model(body: bytes, whose: str) -> SentModel:
    """A model document; BadInputError says which field is wrong."""
    try:
        return _MODEL.validate_json(body)
    except ValidationError as error:
        raise BadInputError(
            f"{whose} is described by something that is no model document: {_first(error)}.", remedy=ODD_ANSWER
        ) from error


def parse_listing(body: bytes, whose: str) -> ListingPage:
    """A page of a listing, entry by entry; BadInputError when it is no list at all."""
    try:
        rows = _PAGE.validate_json(body)
    except ValidationError as error:
        raise BadInputError(
            f"{whose} answered the listing with something that is no list: {_first(error)}.", remedy=ODD_ANSWER
        ) from error
    good = []
    for row in rows:
        try:
            good.append(_LISTING.validate_python(row))
        except ValidationError:
            continue
    return ListingPage(tuple(good), len(rows) - len(good))


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])
