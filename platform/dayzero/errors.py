"""One base and few leaves; each message names what failed, which release or platform, and what to do."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every command."""

    OK = 0
    VERDICT_FAIL = 1
    BAD_INPUT = 2
    NOT_MEASURED = 3
    DEPENDENCY = 4


class DayzeroError(Exception):
    """Base of all errors that speak to the operator. `retryable`: trying again later may succeed."""

    exit_code: ExitCode = ExitCode.NOT_MEASURED
    retryable: bool = False

    def __init__(self, message: str, *, remedy: str | None = None, retry_after_s: float | None = None) -> None:
        self.message = message
        self.remedy = remedy
        self.retry_after_s = retry_after_s
        super().__init__(f"{message} {remedy}" if remedy else message)


class BadInputError(DayzeroError):
    """The user's or the hub's data is malformed, hostile or contradictory."""

    exit_code = ExitCode.BAD_INPUT


class NotFoundError(BadInputError):
    """The named thing does not exist."""


class NotShardedError(BadInputError):
    """The model cannot be split by the degree that was asked for."""


class BlockedError(DayzeroError):
    """The work cannot go on until the operator does something; the remedy says what."""

    exit_code = ExitCode.NOT_MEASURED


class MeasurementError(DayzeroError):
    """Something that should have been measured could not be."""

    exit_code = ExitCode.NOT_MEASURED


class DependencyError(DayzeroError):
    """A service is down or a package is not installed."""

    exit_code = ExitCode.DEPENDENCY


class UnavailableError(DependencyError):
    """A service does not answer now; trying again may help."""

    retryable = True


class UnreachableError(UnavailableError):
    """Nobody answers there, or whoever does asks to be left alone for a while."""


class StaleAttemptError(DayzeroError):
    """The attempt that tries to write was declared dead; a newer one holds the adaptation."""

    exit_code = ExitCode.NOT_MEASURED


class IntegrityError(DayzeroError):
    """Bytes differ from what the hub said of them."""

    exit_code = ExitCode.BAD_INPUT
