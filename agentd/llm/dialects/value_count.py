"""The number of values in a request's JSON, bounded before it is decoded. Pure.

Decoding takes time and memory by the number of values, not of bytes: 60 MB of ``[],[],…``, which
are 58 KB compressed, take ten seconds. Nothing else runs meanwhile, in whatever thread that is.
"""

import re

from agentd.core.errors import TooLarge

MAX_PARTS = 500_000
"""Texts, lists and objects of a request; the name of a member is a text, too."""
MAX_VALUES = 4_000_000
"""Values in all: numbers, such as the tokens of an embeddings request, are decoded soon."""

_STRING = re.compile(rb'"[^"\\]*+(?:(?:\\[\s\S])++[^"\\]*+)*+"?+')
"""A string, or the rest of the body where it has no end: linear in every text."""


def check_value_count(body: bytes) -> None:
    """Raise ``TooLarge`` for a body with too many values, whatever else it is.

    What is within a string does not count. Bodies with few separators are not looked at closely:
    they have three times ``MAX_PARTS`` at most.
    """
    if len(body) <= MAX_PARTS or _count_lists(body) + body.count(b",") <= MAX_PARTS:
        return
    rest, strings = _STRING.subn(b"", body, MAX_PARTS + 1)
    if strings + _count_lists(rest) > MAX_PARTS or rest.count(b",") > MAX_VALUES:
        raise TooLarge(
            f"The body has too many values: more than {MAX_PARTS} texts, lists and objects,"
            f" or more than {MAX_VALUES} values in all"
        )


def _count_lists(body: bytes) -> int:
    """Return the number of bytes that begin a list or an object."""
    return body.count(b"[") + body.count(b"{")
