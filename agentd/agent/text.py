"""Text from elsewhere, made fit to be stored, sent and shown."""

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str) -> str:
    """Text without what would steer a terminal, hide in a line or not be encodable."""
    return _CONTROL.sub("\ufffd", text)
