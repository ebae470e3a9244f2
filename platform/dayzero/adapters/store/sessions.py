"""Sessions of people in PostgreSQL. A person is a token that nobody holds the text of; their sessions show it."""

import secrets
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Engine, delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from dayzero.adapters.store.access import access_token_of, new_token, sha256_of
from dayzero.adapters.store.connection import transaction
from dayzero.adapters.store.limits import MAX_NAME_CHARACTERS, short_name
from dayzero.adapters.store.rows import utc
from dayzero.adapters.store.tables_sessions import PersonRow, SessionRow, SpentStateRow
from dayzero.adapters.store.tables_telling import TokenRow
from dayzero.domain.access import SESSION_PREFIX, AccessToken, Scope
from dayzero.domain.signing_in import Identity
from dayzero.errors import BlockedError
from dayzero.ports.running import Clock

_TEXT_BYTES = 32


class SqlSessions:
    """ports.access.Sessions on PostgreSQL."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def spend(self, state: str, within_s: float) -> bool:
        """Use up the state of a sign-in, which nobody may show again within that time; False when it was used before."""
        now = self._clock.now()
        with transaction(self._engine) as session:
            session.execute(delete(SpentStateRow).where(SpentStateRow.expires_at < now))
            # A day longer than it can be shown: clocks jump.
            row = {"sha256": sha256_of(state), "expires_at": now + timedelta(seconds=within_s, days=1)}
            added = insert(SpentStateRow).values(row).on_conflict_do_nothing().returning(SpentStateRow.sha256)
            return session.execute(added).scalar_one_or_none() is not None

    def begin(self, identity: Identity, scope: Scope, valid_s: float) -> tuple[str, AccessToken]:
        """A new session (its text is shown once). BlockedError when the person's token was revoked."""
        now = self._clock.now()
        expires_at = now + timedelta(seconds=valid_s)
        text = SESSION_PREFIX + secrets.token_urlsafe(_TEXT_BYTES)
        with transaction(self._engine) as session:
            session.execute(delete(SessionRow).where(SessionRow.expires_at < now))
            row = _person(session, identity, now)
            if row.revoked:
                raise BlockedError(
                    f"{identity.name[:80]} may not sign in: token {row.id} was revoked here.",
                    remedy="Ask whoever runs this server.",
                )
            row.name, row.scope = _name(identity), scope.value
            row.expires_at = max(utc(row.expires_at), expires_at)
            session.add(SessionRow(sha256=sha256_of(text), token_id=row.id, expires_at=expires_at))
            session.flush()
            return text, replace(access_token_of(row), expires_at=expires_at)

    def end(self, text: str) -> AccessToken | None:
        """End that session; None when the text is of none, a token's for example."""
        with transaction(self._engine) as session:
            gone = delete(SessionRow).where(SessionRow.sha256 == sha256_of(text)).returning(SessionRow.token_id)
            token_id = session.execute(gone).scalar_one_or_none()
            row = None if token_id is None else session.get(TokenRow, token_id)
            return None if row is None else access_token_of(row)


def _person(session: Session, identity: Identity, now: datetime) -> TokenRow:
    """The person's token, held until the transaction ends; made when they come for the first time."""
    issuer = short_name(identity.issuer, "an issuer")
    subject = short_name(identity.subject, "a subject")
    query = select(TokenRow).join(PersonRow, PersonRow.token_id == TokenRow.id)
    query = query.where(PersonRow.issuer == issuer, PersonRow.subject == subject).with_for_update(of=TokenRow)
    known = session.execute(query).scalar_one_or_none()
    if known is not None:
        return known
    _, row = new_token(now, 1, "dzp", _name(identity), Scope.READ.value, None)
    session.add(row)
    session.flush()
    person = {"issuer": issuer, "subject": subject, "token_id": row.id}
    added = insert(PersonRow).values(person).on_conflict_do_nothing().returning(PersonRow.token_id)
    if session.execute(added).scalar_one_or_none() is None:
        session.delete(row)  # two first sign-ins at once: the other one made the person
        return session.execute(query).scalar_one()
    return row


def _name(identity: Identity) -> str:
    return identity.name.replace("\0", "")[:MAX_NAME_CHARACTERS] or identity.subject
