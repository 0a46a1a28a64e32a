"""The number of values in a request's JSON, bounded before it is decoded. Pure.

Decoding takes time and memory by the number of values, not of bytes: 60 MB of ``[],[],…``, which
are 58 KB compressed, take ten seconds. Nothing else runs meanwhile, in whatever thread that is.
"""

import re

from agentd.core.errors import TooLarge

MAX_VALUES = 500_000
"""Values of a request, such as its texts and objects; the tokens of an embeddings request are the
most that any client sends: 300,000."""

_STRING = re.compile(rb'"[^"\\]*+(?:(?:\\[\s\S])++[^"\\]*+)*+"?+')
"""A string, or the rest of the body where it has no end: linear in every text."""


def check_value_count(body: bytes) -> None:
    """Raise ``TooLarge`` for a body with more than ``MAX_VALUES`` values, whatever else it is.

    What is within a string does not count.
    """
    if len(body) <= MAX_VALUES or _count_separators(body) <= MAX_VALUES:
        return
    rest, strings = _STRING.subn(b"", body, MAX_VALUES + 1)
    if strings > MAX_VALUES or _count_separators(rest) > MAX_VALUES:
        raise TooLarge(f"The body has too many values: more than {MAX_VALUES}")


def _count_separators(body: bytes) -> int:
    """Return the number of bytes without which there is no further value."""
    return body.count(b",") + body.count(b"[") + body.count(b"{")
