"""Which model a release belongs to: known by its repository, by its weights, or by its name."""

from datetime import datetime
from uuid import uuid4

from sqlalchemy import select
from sqlalchemy.orm import Session

from dayzero.adapters.store.tables import ModelAliasRow, ModelRow, ReleaseRow
from dayzero.domain.release import HubKind, Release, ReleaseStage, model_name


def model_of(session: Session, release: Release, now: datetime) -> ModelRow:
    """The release's model, made if it is new; a second name for a known model becomes its alias.

    The caller holds the lock under which releases are recorded.
    """
    known = _by_repository(session, release) or _by_weights(session, release)
    name = model_name(release)
    if known is None and (taken := named(session, name)) is not None:
        if _is_same(session, taken, release):
            known = taken
        else:
            name = release.repo_id
            known = named(session, name)
    if known is None:
        known = ModelRow(id=str(uuid4()), name=name, created_at=now)
        session.add(known)
        session.flush()
    elif name != known.name and named(session, name) is None:
        session.add(ModelAliasRow(alias=name, model_id=known.id, created_at=now))
    return known


def named(session: Session, name: str) -> ModelRow | None:
    """The model of that name or alias."""
    found = session.execute(select(ModelRow).where(ModelRow.name == name)).scalar_one_or_none()
    if found is not None:
        return found
    by_alias = select(ModelRow).join(ModelAliasRow, ModelAliasRow.model_id == ModelRow.id).where(ModelAliasRow.alias == name)
    return session.execute(by_alias).scalar_one_or_none()


def _by_repository(session: Session, release: Release) -> ModelRow | None:
    query = (
        select(ModelRow)
        .join(ReleaseRow, ReleaseRow.model_id == ModelRow.id)
        .where(
            ReleaseRow.hub == release.hub.value,
            ReleaseRow.endpoint == (release.endpoint or ""),
            ReleaseRow.repo_id == release.repo_id,
        )
        .limit(1)
    )
    return session.execute(query).scalar_one_or_none()


def _by_weights(session: Session, release: Release) -> ModelRow | None:
    """Equal weights are one model wherever they lie; equal configurations are not (a fine-tune has its base's)."""
    if release.stage is not ReleaseStage.WEIGHTS:
        return None
    query = (
        select(ModelRow)
        .join(ReleaseRow, ReleaseRow.model_id == ModelRow.id)
        .where(ReleaseRow.content_id == release.content_id)
        .order_by(ReleaseRow.seq)
        .limit(1)
    )
    return session.execute(query).scalar_one_or_none()


def _is_same(session: Session, model: ModelRow, release: Release) -> bool:
    """Whether a model of that name is this release's: the same repository id elsewhere, or an announced configuration.

    Two folders of the same name are two models unless one of them only announced.
    """
    if release.hub not in (HubKind.DIRECTORY, HubKind.CONFIG):
        return True
    folders = select(ReleaseRow.hub).where(ReleaseRow.model_id == model.id, ReleaseRow.hub != HubKind.CONFIG.value)
    return session.execute(folders.limit(1)).scalar_one_or_none() is None
