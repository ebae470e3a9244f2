"""Tokens with scopes, and the audit trail."""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import uuid4

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from dayzero.adapters.store.connection import transaction
from dayzero.adapters.store.limits import short_name
from dayzero.adapters.store.rows import utc
from dayzero.adapters.store.tables_access import AuditRow
from dayzero.adapters.store.tables_sessions import SessionRow
from dayzero.adapters.store.tables_telling import TokenRow
from dayzero.domain.access import SESSION_PREFIX, AccessToken, AuditRecord, Scope
from dayzero.errors import BadInputError, NotFoundError
from dayzero.ports.running import Clock

_TOKEN_BYTES = 32
_MAX_DETAIL_CHARACTERS = 2000


class SqlAccess:
    """ports.access.Access on PostgreSQL; a token is stored as its sha256."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def issue(self, name: str, scope: Scope, valid_s: float) -> tuple[str, AccessToken]:
        """A new token (shown once) of that scope. BadInputError for a worker's: those are issued for a platform."""
        if scope is Scope.WORKER:
            raise BadInputError("a worker's token is for one platform.", remedy="Use `dayzero worker token PLATFORM`.")
        token, row = new_token(self._clock.now(), valid_s, "dzt", name, scope.value, None)
        with transaction(self._engine) as session:
            session.add(row)
            session.flush()
            return token, access_token_of(row)

    def check(self, token: str) -> AccessToken | None:
        """The token, or None when it is unknown, revoked or has expired."""
        with transaction(self._engine) as session:
            now = self._clock.now()
            if token.startswith(SESSION_PREFIX):
                return _of_session(session, token, now)
            row = valid_row(session, token, now)
            return None if row is None else access_token_of(row)

    def tokens(self) -> Sequence[AccessToken]:
        """Every token, the newest first."""
        with transaction(self._engine) as session:
            rows = session.execute(select(TokenRow).order_by(TokenRow.created_at.desc(), TokenRow.id)).scalars()
            return tuple(access_token_of(row) for row in rows)

    def revoke(self, token_id: str) -> AccessToken:
        """End it now, once. NotFoundError."""
        with transaction(self._engine) as session:
            row = session.get(TokenRow, token_id)
            if row is None:
                raise NotFoundError(f"there is no token {token_id[:80]}.", remedy="See `dayzero token ls`.")
            row.revoked = True
            return access_token_of(row)

    def record(self, who: str, action: str, subject: str, detail: str = "") -> None:
        """Add a line to the trail; lines are never changed."""
        row = AuditRow(
            id=str(uuid4()), at=self._clock.now(), who=who, action=action, subject=subject[:_MAX_DETAIL_CHARACTERS],
            detail=detail[:_MAX_DETAIL_CHARACTERS],
        )  # fmt: skip
        with transaction(self._engine) as session:
            session.add(row)

    def trail(self, limit: int = 100) -> Sequence[AuditRecord]:
        """The newest lines of the trail, the newest first."""
        query = select(AuditRow).order_by(AuditRow.seq.desc()).limit(limit)
        with transaction(self._engine) as session:
            rows = session.execute(query).scalars()
            return tuple(AuditRecord(row.id, utc(row.at), row.who, row.action, row.subject, row.detail) for row in rows)


def new_token(now: datetime, valid_s: float, prefix: str, name: str, scope: str, platform: str | None) -> tuple[str, TokenRow]:
    """A fresh token and the row that knows its sha256. BadInputError for a validity of nothing."""
    if not valid_s > 0:
        raise BadInputError(f"a token that is valid for {valid_s} s is of no use.", remedy="Give a validity above 0 s.")
    try:
        expires_at = now + timedelta(seconds=valid_s)
    except OverflowError as error:
        raise BadInputError(f"a validity of {valid_s} s goes beyond the calendar.") from error
    token = f"{prefix}_{secrets.token_urlsafe(_TOKEN_BYTES)}"
    row = TokenRow(
        id=str(uuid4()), sha256=sha256_of(token), name=short_name(name, "a token's name"), scope=short_name(scope, "a scope"),
        platform=platform, created_at=now, expires_at=expires_at, revoked=False,
    )  # fmt: skip
    return token, row


def valid_row(session: Session, token: str, now: datetime) -> TokenRow | None:
    """The row of a token that may be used now."""
    query = select(TokenRow).where(TokenRow.sha256 == sha256_of(token), TokenRow.revoked.is_(False))
    row = session.execute(query).scalar_one_or_none()
    return None if row is None or utc(row.expires_at) <= now else row


def _of_session(session: Session, text: str, now: datetime) -> AccessToken | None:
    """The token of the person whose session that is, good for as long as the session."""
    query = select(TokenRow, SessionRow.expires_at).join(SessionRow, SessionRow.token_id == TokenRow.id)
    query = query.where(SessionRow.sha256 == sha256_of(text), SessionRow.expires_at > now, TokenRow.revoked.is_(False))
    found = session.execute(query).one_or_none()
    return None if found is None else replace(access_token_of(found[0]), expires_at=utc(found[1]))


def access_token_of(row: TokenRow) -> AccessToken:
    """The noun; scopes that this version does not know may do nothing but read."""
    scope = Scope(row.scope) if row.scope in tuple(Scope) else Scope.READ
    return AccessToken(
        row.id, row.name, scope, row.platform, utc(row.created_at), utc(row.expires_at), row.revoked
    )  # fmt: skip


def sha256_of(token: str) -> str:
    """What is stored of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
