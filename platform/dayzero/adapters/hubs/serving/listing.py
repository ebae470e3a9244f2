"""Which models a listing shows, in which order, and which page of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from dayzero.adapters.hubs.cards import Card
from dayzero.adapters.hubs.serving.snapshots import RepoHistory
from dayzero.errors import BadInputError

LARGEST_PAGE = 1000


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A repository and its card."""

    history: RepoHistory
    card: Card

    @property
    def repo_id(self) -> str:
        """Its id."""
        return self.history.repo_id


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What a client asks of GET /api/models. `after` is the id of the last model of the page before."""

    author: str | None
    search: str | None
    filters: tuple[str, ...]
    task: str | None
    sort: str | None
    descending: bool
    limit: int
    after: str | None


def matching(models: Sequence[ListedModel], query: ListQuery) -> list[ListedModel]:
    """The models that the query wants, in its order (ties by id, so that pages never overlap)."""
    found = [model for model in models if _wanted(model, query)]
    found.sort(key=lambda model: model.repo_id)
    if query.sort in (None, "likes", "downloads", "trendingScore"):
        return found
    if query.sort == "lastModified":
        found.sort(key=lambda model: model.history.head.when, reverse=query.descending)
    elif query.sort == "createdAt":
        found.sort(key=lambda model: model.history.commits[0].when, reverse=query.descending)
    elif query.sort == "id":
        found.sort(key=lambda model: model.repo_id, reverse=query.descending)
    else:
        raise BadInputError(f"sort by {query.sort!r} is not known", remedy="Sort by createdAt, lastModified or id.")
    return found


def page_of(models: Sequence[ListedModel], query: ListQuery) -> tuple[Sequence[ListedModel], str | None]:
    """The page after `after`, and the cursor of the next page (None: this is the last)."""
    begin = 0
    if query.after is not None:
        ids = [model.repo_id for model in models]
        if query.after not in ids:
            raise BadInputError("the cursor is not known any more", remedy="Begin the listing anew.")
        begin = ids.index(query.after) + 1
    page = models[begin : begin + query.limit]
    more = begin + query.limit < len(models)
    return page, page[-1].repo_id if page and more else None


def _wanted(model: ListedModel, query: ListQuery) -> bool:
    org, _, _ = model.repo_id.partition("/")
    if query.author and org.casefold() != query.author.casefold():
        return False
    if query.search and not all(word in model.repo_id.casefold() for word in query.search.casefold().split()):
        return False
    if query.task and model.card.task != query.task:
        return False
    return all(wanted in model.card.tags for wanted in query.filters)
