"""Which headers settings may add to the requests that go to suppliers. Pure."""

import re

_RESERVED_HEADERS = {
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "accept-encoding",
    "te",
}
"""Headers that only the sender of a request can set."""

_HEADER_NAME = re.compile("[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile("[ -~]*")

_SECRET_HEADER = re.compile("auth|cookie|key|token|secret|password|credential", re.IGNORECASE)
"""The words in the name of a header whose value is a secret."""
_SCHEME = re.compile(r"(?:basic|bearer|digest|token|apikey|negotiate)\s+\S", re.IGNORECASE)
"""The scheme at the start of a credentials header's value, whatever the header's name."""


def find_header_problem(name: str, value: str) -> str:
    """Explain why a header cannot be added, without repeating its value; empty if it can."""
    if not _HEADER_NAME.fullmatch(name):
        return "is not a valid header name"
    if name.lower() in _RESERVED_HEADERS:
        return "is set by agentd itself; remove it"
    return "" if _HEADER_VALUE.fullmatch(value) else "its value has odd characters in it"


def find_plain_header_problem(name: str, value: str) -> str:
    """Return as ``find_header_problem`` why a header cannot be added that everybody may see."""
    if wrong := find_header_problem(name, value):
        return wrong
    if is_credential_header(name, value):
        return "is a header with credentials, which belong to the channel; remove it"
    return "is set by agentd itself; remove it" if name.lower() == "content-type" else ""


def is_credential_header(name: str, value: str) -> bool:
    """Return whether a header holds credentials, by its name or its value's scheme."""
    return bool(_SECRET_HEADER.search(name) or _SCHEME.match(value))
