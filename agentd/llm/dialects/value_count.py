"""The number of values in JSON of callers and suppliers, bounded before it is decoded. Pure.

Decoding takes time and memory by the number of values, not of bytes: 60 MB of ``[],[],…``, which
are 58 KB compressed, take ten seconds. Nothing else runs meanwhile, in whatever thread that is.
"""

import re

from agentd.core.errors import TooLarge

MAX_PARTS = 500_000
"""Texts, lists and objects in a JSON text; the name of a member is a text, too."""
MAX_VALUES = 4_000_000
"""Values of a request in all: numbers, such as the tokens to embed, are decoded soon."""

_STRING = re.compile(rb'"[^"\\]*+(?:(?:\\[\s\S])++[^"\\]*+)*+"?+')
"""A string, or the rest of the body where it has no end: linear in every text."""


def check_value_count(body: bytes) -> None:
    """Raise ``TooLarge`` for a request's body with too many values, whatever else it is."""
    parts, values = _count_values(body)
    if parts > MAX_PARTS or values > MAX_VALUES:
        raise TooLarge(
            f"The body has too many values: more than {MAX_PARTS} texts, lists and objects,"
            f" or more than {MAX_VALUES} values in all"
        )


def has_too_many_parts(data: bytes | str) -> bool:
    """Return whether a supplier's JSON has too many texts, lists and objects, whatever it is.

    Numbers do not count: the replies to embeddings requests have millions.
    """
    if len(data) <= MAX_PARTS:
        return False
    body = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    return _count_values(body)[0] > MAX_PARTS


def _count_values(body: bytes) -> tuple[int, int]:
    """Return how many texts, lists and objects, and how many values in all; 0 for few.

    What is within a string does not count. Bodies with few separators are not looked at closely:
    they have three times ``MAX_PARTS`` at most.
    """
    if len(body) <= MAX_PARTS or _count_lists(body) + body.count(b",") <= MAX_PARTS:
        return 0, 0
    rest, strings = _STRING.subn(b"", body, MAX_PARTS + 1)
    return strings + _count_lists(rest), rest.count(b",")


def _count_lists(body: bytes) -> int:
    """Return the number of bytes that begin a list or an object."""
    return body.count(b"[") + body.count(b"{")
