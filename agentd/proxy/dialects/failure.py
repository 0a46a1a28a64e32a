"""What a supplier means by an error. Their words hardly overlap, so one table reads them all."""

import math
import re
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime

import msgspec

from agentd.proxy.dialects.conversation import ErrorKind, SupplierError

_MOST_MESSAGE = 600
"""Characters of a supplier's message that are told on."""

_MOST_WAIT = 31 * 86400.0

_WORDS: dict[str, ErrorKind] = {
    "authentication_error": "authentication",
    "invalid_api_key": "authentication",
    "invalid_authentication": "authentication",
    "UNAUTHENTICATED": "authentication",
    "permission_error": "permission",
    "permission_denied": "permission",
    "PERMISSION_DENIED": "permission",
    "not_found_error": "not_found",
    "model_not_found": "not_found",
    "NOT_FOUND": "not_found",
    "context_length_exceeded": "context_too_long",
    "string_above_max_length": "context_too_long",
    "request_too_large": "context_too_long",
    "insufficient_quota": "quota",
    "billing_error": "quota",
    "billing_hard_limit_reached": "quota",
    "usage_limit_reached": "quota",
    "rate_limit_error": "rate_limit",
    "rate_limit_exceeded": "rate_limit",
    "RESOURCE_EXHAUSTED": "rate_limit",
    "overloaded_error": "overloaded",
    "server_is_overloaded": "overloaded",
    "slow_down": "overloaded",
    "engine_overloaded": "overloaded",
    "UNAVAILABLE": "overloaded",
    "api_error": "server",
    "server_error": "server",
    "internal_server_error": "server",
    "timeout_error": "server",
    "INTERNAL": "server",
    "invalid_request_error": "invalid_request",
    "invalid_prompt": "invalid_request",
    "INVALID_ARGUMENT": "invalid_request",
}
"""What stands in ``code``, ``type`` or ``status`` of an error."""

_STATUSES: dict[int, ErrorKind] = {
    401: "authentication",
    402: "quota",
    403: "permission",
    404: "not_found",
    413: "context_too_long",
    429: "rate_limit",
    503: "overloaded",
    529: "overloaded",
}

_TOO_LONG = re.compile(
    r"maximum context|context (length|window|limit|size)|prompt is too long|too many tokens"
    r"|input is too long|exceeds? the (maximum|available) (context|number of tokens)",
    re.IGNORECASE,
)
_NO_MONEY = re.compile(
    r"credit balance|insufficient (balance|credits?|funds)|exceeded your current quota",
    re.IGNORECASE,
)
_TRY_AGAIN = re.compile(
    r"try again in ((?:[\d.]+ ?(?:ms|[hms]|seconds?|minutes?|hours?) ?)+)", re.I
)
_SPAN = re.compile(r"([\d.]+) ?(ms|[hms])")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def failure(status: int, headers: Mapping[str, str], body: bytes) -> SupplierError:
    """What an answer of any status but 2xx means, in whichever dialect; never raises.

    ``headers`` have their names in lower case.
    """
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = _plain(body)
    return explained(said, status, headers)


def explained(
    said: object, status: int = 0, headers: Mapping[str, str] | None = None
) -> SupplierError:
    """What a decoded error means, be it a body or an event of a stream; ``status`` 0: none."""
    words = list(_words(said))
    message = _message(said)
    kind = _kind(words, message, status)
    if not message:
        name = ", ".join(dict.fromkeys(word for word in words if not word.isdigit()))
        message = f"The supplier gave no reason ({name or f'HTTP {status}'})"
    waits = kind in ("rate_limit", "quota", "overloaded", "server")
    return SupplierError(kind, message, _wait(headers or {}, message) if waits else None)


def _kind(words: list[str], message: str, status: int) -> ErrorKind:
    """Codes tell more than types, and types more than the status; some only the words tell."""
    known = [_WORDS[word] for word in words if word in _WORDS]
    kind: ErrorKind = known[0] if known else _by_status(words, status)
    if kind in ("invalid_request", "server"):  # which some say of everything
        kind = _STATUSES.get(status, kind)
    if kind in ("invalid_request", "server", "context_too_long") and _TOO_LONG.search(message):
        return "context_too_long"
    if kind in ("invalid_request", "rate_limit", "permission") and _NO_MONEY.search(message):
        return "quota"
    return kind


def _by_status(words: list[str], status: int) -> ErrorKind:
    if status < 300:  # a stream began well
        status = next((int(word) for word in words if re.fullmatch(r"[45]\d\d", word)), 500)
    callers = 400 <= status < 500 and status not in (408, 409)
    return _STATUSES.get(status) or ("invalid_request" if callers else "server")


def _words(said: object) -> Iterator[str]:
    """The codes and types of an error, the most telling first."""
    error = _error(said)
    if isinstance(error, Mapping):
        for name in ("code", "type", "status"):
            word = error.get(name)
            if isinstance(word, str | int) and not isinstance(word, bool) and word != "error":
                yield str(word)


def _message(said: object) -> str:
    error = _error(said)
    if isinstance(error, Mapping):
        found = (error.get(name) for name in ("message", "detail", "error_msg"))
        error = next((text for text in found if isinstance(text, str) and text), "")
    text = " ".join(error.split()) if isinstance(error, str) else ""
    return text if len(text) <= _MOST_MESSAGE else text[: _MOST_MESSAGE - 1] + "…"


def _error(said: object) -> object:
    """The error itself: ``{"error": {…}}``, ``{"error": "…"}``, a list of one, or bare."""
    if isinstance(said, list) and said:
        said = said[0]
    inner = said.get("error") if isinstance(said, Mapping) else None
    return inner if isinstance(inner, Mapping | str) and inner else said


def _plain(body: bytes) -> str:
    text = body[: 4 * _MOST_MESSAGE].decode(errors="replace").strip()
    return "" if text.startswith("<") else text


def _wait(headers: Mapping[str, str], message: str) -> float | None:
    """Seconds, from the headers or, as OpenAI tells it too, from the message."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        wait = _number(headers.get(name, ""), unit)
        if wait is not None:
            return wait
    if until := _date(headers.get("retry-after", "")):
        now = _date(headers.get("date", ""))  # the supplier's own clock, so ours may be wrong
        return min(max(until - now, 0.0), _MOST_WAIT) if now else None
    return wait_in_words(message)


def wait_in_words(message: str) -> float | None:
    """Return the seconds after which a supplier's message says to try again; None: not told."""
    told = _TRY_AGAIN.search(message)
    spans = _SPAN.findall(told[1]) if told else []
    waits = [_number(count, _SECONDS[unit]) for count, unit in spans]
    return sum(wait for wait in waits if wait is not None) if waits else None


def _number(text: str, unit: float) -> float | None:
    try:
        seconds = float(text) * unit
    except ValueError:
        return None
    return min(seconds, _MOST_WAIT) if math.isfinite(seconds) and seconds >= 0 else None


def _date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None
