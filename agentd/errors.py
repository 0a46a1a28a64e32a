"""What may go wrong, each kind once, in words for the reader.

AgentdError
├── BadRequest            the request's own words are wrong
├── Unauthorized          no key or login, or a wrong one
├── Forbidden             known, but not allowed
├── Misdirected           meant for another host (the ``Host`` header)
├── NotFound              no such chat, prompt or path
├── MethodNotAllowed      the path exists, this method on it does not
├── Conflict              it contradicts what is there
├── PreconditionFailed    ``If-Match`` names another version
├── TooLarge              more bytes than allowed
├── UnsupportedMedia      a body of another type than JSON
├── LimitReached          too often or too many
├── Disabled              a whole surface is not configured
│   └── ManagementDisabled    the management of the model gateway is not
├── Unavailable           right now it cannot be done: disk full, a damaged or read-only file
│   ├── SupplierUnreachable   a supplier's host cannot be reached, stalls, or breaks off
│   ├── Resting               every supplier of a model asked to be left alone for a while
│   └── DatabaseRefused       the analytics database does not do what it was told
└── Misconfigured         a file or an option written by a person is wrong: each ``Mistake`` told

Which status and body each becomes is told in ``web.envelope`` alone.
"""

import difflib
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar


class AgentdError(Exception):
    """The base of all that agentd raises on purpose.

    ``message`` is one sentence for the reader; ``details`` may add what helps to mend it.
    Neither ever holds a secret.
    """

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class BadRequest(AgentdError):
    """The request's own words are wrong."""


class Unauthorized(AgentdError):
    """No key or login, or a wrong one."""


class Forbidden(AgentdError):
    """The caller is known, but may not do this."""


class Misdirected(AgentdError):
    """The request was meant for a host that this daemon is not."""


class NotFound(AgentdError):
    """No such chat, prompt or path."""


class NoAddress(NotFound):
    """Nothing is at this path, whatever its parts name."""


class MethodNotAllowed(AgentdError):
    """The path exists; ``allowed`` are the methods that it has."""

    def __init__(self, message: str, allowed: tuple[str, ...]) -> None:
        super().__init__(message)
        self.allowed = allowed


class Conflict(AgentdError):
    """The request contradicts what is there."""


class PreconditionFailed(AgentdError):
    """The version named by the caller is no longer the current one."""


class TooLarge(AgentdError):
    """More bytes than are allowed here."""


class UnsupportedMedia(AgentdError):
    """The body is of a type that is not understood here."""


class LimitReached(AgentdError):
    """Too often, or too many at once; ``retry_after`` seconds is a good time to wait."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Disabled(AgentdError):
    """A whole surface is not configured."""


class ManagementDisabled(Disabled):
    """The management of the model gateway is not configured."""


class Unavailable(AgentdError):
    """It cannot be done right now; trying later may help."""


class SupplierUnreachable(Unavailable):
    """A supplier's host cannot be reached, stalls, breaks off, or does not speak HTTP.

    ``stage`` tells how far the call came: ``name``, ``address`` (it is not one to be called),
    ``proxy`` (the channel's proxy or VPN), ``connect``, ``tls``, ``head`` (no answer yet) or
    ``body`` (in the middle of one); ``host`` is the supplier's. ``gave_up``: we stopped waiting,
    and the supplier may work on, and charge, all the same.
    """

    def __init__(self, message: str, stage: str, host: str, *, gave_up: bool = False) -> None:
        super().__init__(message)
        self.stage = stage
        self.host = host
        self.gave_up = gave_up


class Resting(Unavailable):
    """Every supplier of a model asked to be left alone; ``retry_after`` seconds is how long.

    ``rate_limited``: because of how much was asked, and not for any trouble of their own.
    """

    def __init__(self, message: str, retry_after: int, *, rate_limited: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.rate_limited = rate_limited


class DatabaseRefused(Unavailable):
    """The analytics database answers with an error, or its table is not one of ours.

    ``code`` is its own number of the error; 0 when there is none.
    """

    def __init__(self, message: str, code: int, details: str = "") -> None:
        super().__init__(message, details)
        self.code = code


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake in a file or option that a person wrote."""

    where: str
    """The file's path, or the option's name."""
    line: int
    """Counted from 1; 0 when the mistake has no line."""
    what: str
    """What was found, what was expected, and the nearest right name."""

    def __str__(self) -> str:
        """``path:line: what``, as editors and compilers have it."""
        return (
            f"{self.where}:{self.line}: {self.what}" if self.line else f"{self.where}: {self.what}"
        )


class Misconfigured(AgentdError):
    """Something that a person wrote cannot be taken; every mistake is told at once."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__("\n".join(map(str, mistakes)))
        self.mistakes = mistakes


SOUGHT = 1000
"""Names among which a near one is sought; it takes some milliseconds."""
TOLD = 50
"""Names that are told."""


def nearest(name: str, known: Iterable[str]) -> str:
    """``; did you mean "port"?``, or those that are known when none is near."""
    names = list(known)
    close = difflib.get_close_matches(name[:64].lower(), names, 1) if len(names) <= SOUGHT else []
    if close:
        return f'; did you mean "{close[0]}"?'
    more = f" and {len(names) - TOLD:,} more" if len(names) > TOLD else ""
    return f" (known: {', '.join(names[:TOLD])}{more})" if names else ""


R = TypeVar("R", bound=Hashable)


def find_repeated(values: Iterable[R]) -> R | None:
    """Return the first value that was there before, or ``None``; linear, as input may be long."""
    seen: set[R] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None
