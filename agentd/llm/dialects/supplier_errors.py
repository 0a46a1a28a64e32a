"""Classifies suppliers' errors. Their codes hardly overlap, so one table covers all dialects."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from email.utils import parsedate_to_datetime

import msgspec

from agentd.llm.conversation import ErrorKind, SupplierError

_MOST_MESSAGE = 600
"""The maximum characters of a supplier's message that are forwarded."""

_MOST_WAIT = 31 * 86400.0

_WORDS: dict[str, ErrorKind] = {
    "authentication_error": "authentication",
    "invalid_api_key": "authentication",
    "invalid_authentication": "authentication",
    "UNAUTHENTICATED": "authentication",
    "API_KEY_INVALID": "authentication",
    "permission_error": "permission",
    "permission_denied": "permission",
    "PERMISSION_DENIED": "permission",
    "not_found_error": "not_found",
    "model_not_found": "not_found",
    "NOT_FOUND": "not_found",
    "context_length_exceeded": "context_too_long",
    "string_above_max_length": "context_too_long",
    "request_too_large": "context_too_long",
    "content_filter": "content_refused",
    "content_policy_violation": "content_refused",
    "image_content_policy_violation": "content_refused",
    "moderation_blocked": "content_refused",
    "data_inspection_failed": "content_refused",
    "DataInspectionFailed": "content_refused",
    "tool_use_failed": "unusable_reply",
    "insufficient_quota": "quota",
    "billing_error": "quota",
    "billing_hard_limit_reached": "quota",
    "usage_limit_reached": "quota",
    "exceeded_current_quota_error": "quota",
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
"""The kinds of errors by Google's ``reason``, or their ``code``, ``type`` or ``status``."""

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
    r"|input is too long|exceeds? the (maximum|available) (context|number of tokens)"
    r"|maximum prompt length|exceeds? the maximum allowed input length|exceeded model token limit"
    r"|range of input length should be|token count of \d+ exceeds the limit"
    r"|reduce the length of the messages|prompt exceeds max length",
    re.IGNORECASE,
)
_TOO_LARGE_AT_ONCE = re.compile(r"request too large for", re.IGNORECASE)
"""The beginning of what OpenAI and Groq say, as of a rate limit, of a single request with more
tokens than they take in a minute: no waiting helps."""
_REFUSED = re.compile(
    r"content filtering policy|content management policy|content exists risk"
    r"|prompt was flagged as potentially violating",
    re.IGNORECASE,
)
_NO_MONEY = re.compile(
    r"credit balance|insufficient (balance|credits?|funds)|credits are depleted", re.IGNORECASE
)
_UNPAID_REQUEST = re.compile(
    r"(?=your credit balance is too low|you have reached your specified api usage limits"
    r"|insufficient (balance|credits?|funds))(?!.*: )",
    re.IGNORECASE,
)
"""The beginning of what Anthropic, for one, says of an account, with status 400."""
_OVER_QUOTA = re.compile(r"exceeded your current quota", re.IGNORECASE)
"""No money, but for Google, who says so of any limit, and most often of that for a minute."""
_BAD_KEY = re.compile(r"incorrect api key provided", re.IGNORECASE)
"""The beginning of what xAI says of a key, with status 400."""
_BAD_PLACE = re.compile(r"user location is not supported", re.IGNORECASE)
"""The beginning of what Google says, with status 400, of where a request comes from."""
_TRY_AGAIN = re.compile(
    r"(?:try again|retry|resets?) in "
    r"((?:[\d.]+ ?(?:ms|[dhms]|seconds?|minutes?|hours?|days?)(?![a-z]),? ?)+)",
    re.I,
)
_SPAN = re.compile(r"([\d.]+) ?(ms|[dhms])", re.I)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_error_response(status: int, headers: Mapping[str, str], body: bytes) -> SupplierError:
    """Parse a response with an error status, in whichever dialect; never raises.

    ``headers`` have lower-case names.
    """
    try:
        answer = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        answer = _decode_text(body)
    return parse_error(answer, status, headers)


def parse_error(
    answer: object, status: int = 0, headers: Mapping[str, str] | None = None
) -> SupplierError:
    """Classify a decoded error, of a body or of a stream event; ``status`` 0: unknown."""
    words = list(_read_codes(answer))
    message = _read_message(answer)
    kind = _classify(words, message, status)
    if kind in ("invalid_request", "rate_limit", "permission"):
        kind = _classify_by_account(kind, words, _read_own_message(answer))
    if not message:
        name = ", ".join(dict.fromkeys(word for word in words if not word.isdigit()))
        message = f"The supplier gave no reason ({name or f'HTTP {status}'})"
    waits = kind in ("rate_limit", "quota", "overloaded", "server")
    wait = _read_wait(headers or {}, answer, message) if waits else None
    return SupplierError(kind, message, wait)


def _classify(words: list[str], message: str, status: int) -> ErrorKind:
    """Return the kind: codes before types before the status; some show only in the message."""
    known = [_WORDS[word] for word in words if word in _WORDS]
    kind: ErrorKind = known[0] if known else _classify_status(words, status)
    if kind in ("invalid_request", "server"):  # which some say of everything
        kind = _STATUSES.get(status, kind)
    if kind in ("invalid_request", "server", "context_too_long") and _TOO_LONG.search(message):
        return "context_too_long"
    if kind == "rate_limit" and _TOO_LARGE_AT_ONCE.match(message):
        return "context_too_long"
    if kind == "invalid_request" and _REFUSED.search(message):
        return "content_refused"
    return kind


def _classify_by_account(kind: ErrorKind, words: list[str], message: str) -> ErrorKind:
    """Return the kind of an error whose message, the supplier's own, may be about our account.

    An invalid request is told with words of the caller, also with the name of a field at the
    beginning, before a colon. Nobody can have it said so that the account is given up for all.
    """
    if kind != "invalid_request":
        unpaid = _NO_MONEY.search(message) or (
            "RESOURCE_EXHAUSTED" not in words and _OVER_QUOTA.search(message)
        )
        return "quota" if unpaid else kind
    if "Client specified an invalid argument" in words and _BAD_KEY.match(message):  # xAI
        return "authentication"
    if _UNPAID_REQUEST.match(message):
        return "quota"
    return "permission" if _BAD_PLACE.match(message) else kind


def _classify_status(words: list[str], status: int) -> ErrorKind:
    if status < 300:  # a stream began well
        status = next((int(word) for word in words if re.fullmatch(r"[45]\d\d", word)), 500)
    callers = 400 <= status < 500 and status not in (408, 409)
    return _STATUSES.get(status) or ("invalid_request" if callers else "server")


def _read_codes(answer: object) -> Iterator[str]:
    """Yield the codes and types of an error, the most specific first."""
    yield from _read_details(answer, "reason")
    error = _unwrap_error(answer)
    fields = error if isinstance(error, Mapping) else answer  # xAI's stand beside the text
    if isinstance(fields, Mapping):
        for name in ("code", "type", "status"):
            word = fields.get(name)
            if isinstance(word, str | int) and not isinstance(word, bool) and word != "error":
                yield str(word)


def _read_details(answer: object, name: str) -> Iterator[str]:
    """Yield the texts of this name in the details that Google's errors have."""
    error = _unwrap_error(answer)
    details = error.get("details") if isinstance(error, Mapping) else None
    for one in details if isinstance(details, list) else ():
        word = one.get(name) if isinstance(one, Mapping) else None
        if isinstance(word, str) and word:
            yield word


def _read_message(answer: object) -> str:
    text = " ".join(filter(None, (_read_own_message(answer), _read_message_behind(answer))))
    return text if len(text) <= _MOST_MESSAGE else text[: _MOST_MESSAGE - 1] + "…"


def _read_message_behind(answer: object) -> str:
    """Return what the supplier behind OpenRouter says, which itself tells only that one failed."""
    error = _unwrap_error(answer)
    metadata = error.get("metadata") if isinstance(error, Mapping) else None
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    if isinstance(raw, str):
        try:
            raw = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return " ".join(raw.split())
    return _read_own_message(raw)


def _read_own_message(answer: object) -> str:
    error = _unwrap_error(answer)
    if isinstance(error, Mapping):
        found = [error.get(name) for name in ("message", "detail", "error_msg")]
        texts = [text for text in found if isinstance(text, str) and text]
        error = texts[0] if texts else "; ".join(_read_invalid_fields(found))
    return " ".join(error.split()) if isinstance(error, str) else ""


def _read_invalid_fields(found: Iterable[object]) -> Iterator[str]:
    """Yield what is wrong with each field, as Mistral and servers with FastAPI list them."""
    for one in found:
        listed = one.get("detail") if isinstance(one, Mapping) else one
        for field in listed if isinstance(listed, list) else ():
            text = field.get("msg") if isinstance(field, Mapping) else None
            if isinstance(text, str) and text:
                place = field.get("loc")
                names = place if isinstance(place, list) else ()
                named = ".".join(str(name) for name in names if isinstance(name, str | int))
                yield f"{named}: {text}" if named else text


def _unwrap_error(answer: object) -> object:
    """Return the error itself: ``{"error": {…}}``, ``{"error": "…"}``, a list of one, or bare."""
    if isinstance(answer, list) and answer:
        answer = answer[0]
    inner = answer.get("error") if isinstance(answer, Mapping) else None
    return inner if isinstance(inner, Mapping | str) and inner else answer


def _decode_text(body: bytes) -> str:
    text = body[: 4 * _MOST_MESSAGE].decode(errors="replace").strip()
    return "" if text.startswith("<") else text


def _read_wait(headers: Mapping[str, str], answer: object, message: str) -> float | None:
    """Return the seconds to wait, from the headers or, as others do, from the error itself."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        wait = _parse_seconds(headers.get(name, ""), unit)
        if wait is not None:
            return wait
    if until := _parse_date(headers.get("retry-after", "")):
        now = _parse_date(headers.get("date", ""))  # the supplier's own clock, so ours may be wrong
        return min(max(until - now, 0.0), _MOST_WAIT) if now else None
    delay = next(_read_details(answer, "retryDelay"), "").removesuffix("s")
    return parse_wait(message) if (wait := _parse_seconds(delay, 1.0)) is None else wait


def parse_wait(message: str) -> float | None:
    """Return the seconds after which a message says to try again, or None."""
    hint = _TRY_AGAIN.search(message)
    spans = _SPAN.findall(hint[1]) if hint else []
    waits = [_parse_seconds(count, _SECONDS[unit.lower()]) for count, unit in spans]
    known = [wait for wait in waits if wait is not None]
    return min(sum(known), _MOST_WAIT) if known else None


def _parse_seconds(text: str, unit: float) -> float | None:
    try:
        seconds = float(text) * unit
    except ValueError:
        return None
    return min(seconds, _MOST_WAIT) if math.isfinite(seconds) and seconds >= 0 else None


def _parse_date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None
