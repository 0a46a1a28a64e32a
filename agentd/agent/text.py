"""Makes foreign text safe to store, send and show."""

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def sanitize(text: str) -> str:
    """Replace characters that control terminals, hide text or cannot be encoded."""
    return _CONTROL.sub("\ufffd", text)
