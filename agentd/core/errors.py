"""All errors that agentd raises on purpose, with a message for the reader.

AgentdError
├── BadRequest            the request is invalid
├── Unauthorized          no key or session, or an invalid one
├── Forbidden             authenticated, but not allowed
├── WrongHost             meant for another host (the ``Host`` header)
├── NotFound              no such chat, prompt or file
│   └── RouteNotFound         no such path
├── MethodNotAllowed      the path exists, but not with this method
├── Conflict              the request contradicts the current state
├── PreconditionFailed    ``If-Match`` names another version
├── TooLarge              the body, file or text exceeds a limit
├── UnsupportedMedia      the body's media type is not supported here
├── LimitReached          rate limit or another quota exceeded
├── Disabled              a whole group of routes is not configured
│   └── ManagementDisabled    the management API of the model gateway is not
├── Unavailable           not possible now: disk full, a corrupt or read-only file
│   ├── SupplierUnreachable   a supplier's host cannot be reached, stalls, or disconnects
│   ├── AllChannelsCoolingDown  every channel of a model is in cooldown
│   └── DatabaseError         the analytics database answered with an error
└── ConfigError         a hand-written file or an option is invalid: ``ConfigProblem``s

Only ``http.errors`` maps them to HTTP statuses and bodies.
"""

import difflib
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from heapq import nlargest
from operator import add
from typing import TypeVar


class AgentdError(Exception):
    """Base class of all errors that agentd raises on purpose.

    ``message`` is one sentence for the reader; ``details`` may say how to fix the cause.
    Neither ever contains a secret.
    """

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class BadRequest(AgentdError):
    """The request is invalid."""


class Unauthorized(AgentdError):
    """No key or session was given, or an invalid one."""


class Forbidden(AgentdError):
    """The caller is authenticated, but may not do this."""


class WrongHost(AgentdError):
    """The ``Host`` header names a host that this daemon does not serve."""


class NotFound(AgentdError):
    """No such chat, prompt or file."""


class RouteNotFound(NotFound):
    """No route matches the path."""


class MethodNotAllowed(AgentdError):
    """The path exists, but not with this method; ``allowed`` lists those it has."""

    def __init__(self, message: str, allowed: tuple[str, ...]) -> None:
        super().__init__(message)
        self.allowed = allowed


class Conflict(AgentdError):
    """The request contradicts the current state."""


class PreconditionFailed(AgentdError):
    """The version that the caller named is no longer the current one."""


class TooLarge(AgentdError):
    """The body, file or text exceeds a size limit."""


class UnsupportedMedia(AgentdError):
    """The media type of the body is not supported here."""


class LimitReached(AgentdError):
    """A rate limit or quota is exceeded; retry after ``retry_after`` seconds."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Disabled(AgentdError):
    """A whole group of routes is not configured."""


class ManagementDisabled(Disabled):
    """The management API of the model gateway is not configured."""


class Unavailable(AgentdError):
    """Not possible at the moment; trying later may help."""


class SupplierUnreachable(Unavailable):
    """A supplier's host cannot be reached, stalls, disconnects, or does not speak HTTP.

    ``stage`` says how far the call got: ``name`` (DNS), ``address`` (not one that may be called),
    ``proxy`` (the channel's proxy or VPN), ``connect``, ``tls``, ``head`` (no response yet) or
    ``body`` (in the middle of one); ``host`` is the supplier's. ``gave_up`` means that we stopped
    waiting; the supplier may go on working, and charge for it.
    """

    def __init__(self, message: str, stage: str, host: str, *, gave_up: bool = False) -> None:
        super().__init__(message)
        self.stage = stage
        self.host = host
        self.gave_up = gave_up


class AllChannelsCoolingDown(Unavailable):
    """Every channel of a model is in cooldown, for ``retry_after`` more seconds.

    ``rate_limited`` means that rate limits are the cause, not failures of the suppliers.
    """

    def __init__(self, message: str, retry_after: int, *, rate_limited: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.rate_limited = rate_limited


class DatabaseError(Unavailable):
    """The analytics database answered with an error, or its table does not have our schema.

    ``code`` is the database's error number; 0 when there is none.
    """

    def __init__(self, message: str, code: int, details: str = "") -> None:
        super().__init__(message, details)
        self.code = code


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """A problem in a hand-written file or an option."""

    where: str
    """Path of the file, or name of the option."""
    line: int
    """Counted from 1; 0 when the problem has no line."""
    what: str
    """The problem: the value found, the value expected, and the nearest known name."""

    def __str__(self) -> str:
        """Return ``path:line: what``, the format that editors and compilers use."""
        return (
            f"{self.where}:{self.line}: {self.what}" if self.line else f"{self.where}: {self.what}"
        )


class ConfigError(AgentdError):
    """A hand-written file or option is invalid; lists every problem at once."""

    def __init__(self, problems: list[ConfigProblem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


MAX_CANDIDATES = 1000
"""Above this many names, skip the "did you mean" search: it takes milliseconds."""
_MAX_COMPARED = 6
"""Names that are compared letter by letter, which takes long: those with the most pieces alike."""
MAX_LISTED = 50
"""The most known names that a message lists."""


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean "port"?``, or the list of known names when none is near."""
    names = list(known)
    near = _find_near_name(name[:64].lower(), names) if len(names) <= MAX_CANDIDATES else None
    if near is not None:
        return f'; did you mean "{near}"?'
    more = f" and {len(names) - MAX_LISTED:,} more" if len(names) > MAX_LISTED else ""
    listed = ", ".join(one or '""' for one in names[:MAX_LISTED])
    return f" (known: {listed}{more})" if names else ""


def _find_near_name(name: str, known: list[str]) -> str | None:
    wanted = _split_into_pieces(name)

    def rate(one: str) -> float:
        pieces = _split_into_pieces(one)
        return len(wanted & pieces) / (len(wanted) + len(pieces) or 1)

    best = nlargest(_MAX_COMPARED, known, key=rate)
    return next(iter(difflib.get_close_matches(name, best, 1)), None)


@lru_cache(MAX_CANDIDATES)
def _split_into_pieces(name: str) -> frozenset[str]:
    """Return the letters of a name and the pairs of neighbours."""
    return frozenset(name).union(map(add, name, name[1:]))


R = TypeVar("R", bound=Hashable)


def find_repeated(values: Iterable[R]) -> R | None:
    """Return the first repeated value, or ``None``."""
    return next((value for _, value in iter_repeated(values)), None)


def iter_repeated(values: Iterable[R]) -> Iterator[tuple[int, R]]:
    """Yield index and value of each that came before; linear, because the input may be long."""
    seen: set[R] = set()
    for index, value in enumerate(values):
        if value in seen:
            yield index, value
        seen.add(value)
