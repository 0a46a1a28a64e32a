"""Redact secrets and escape unprintable characters in logs, errors and chats.

The one place that knows what a secret looks like.
"""

import re
import unicodedata
from collections.abc import Iterable

_HEX = "[0-9A-Fa-f]"
_AFTER_ESCAPE = rf"(?:(?<=%{_HEX}{{2}})|(?<=\\[a-z])|(?<=\\x{_HEX}{{2}})|(?<=\\u{_HEX}{{4}}))"
"""After an escaped character (``%20``, ``\\n``), whose last one may be a letter."""

_START = f"(?:(?<![A-Za-z])|{_AFTER_ESCAPE})"
"""Where a word may begin: not within another, such as ``task-`` and ``mytoken``."""

_SECRETS = (
    (re.compile(rf"(?i){_START}(api_?key|access_token|token|password)=[^&\s\"']+"), r"\1=***"),
    (re.compile(r"(?i)([?&])id=[^&\s\"']+"), r"\1id=***"),  # the secret id of a live connection
    (re.compile(r"(?i)(x-api-key|authorization|cookie)(['\"]?\s*[:=]\s*)[^\r\n]+"), r"\1\2***"),
    (re.compile(rf"{_START}([Bb]earer\s+)[^\s\"',;]{{8,}}"), r"\1***"),
    (re.compile(r"(agent_|agentd-manage-)[A-Za-z0-9]{32}"), r"\1***"),
    (re.compile(rf"{_START}sk-[A-Za-z0-9_-]{{16,}}"), "sk-***"),  # ours, or a supplier's
    (re.compile(r"(?<![0-9])[0-9]{6,}(:|%3[Aa])[A-Za-z0-9_-]{30,}"), "***"),  # a Telegram bot's
    (re.compile(rf"(?:(?<![0-9a-f])|{_AFTER_ESCAPE})[0-9a-f]{{64}}(?![0-9a-f])"), "***"),
)

_MAY_HOLD_SECRET = re.compile(r"[=:]|%3[Aa]|agent_|agentd-manage-|sk-|[Bb]earer\s|[0-9a-f]{64}")
"""A cheap pattern that occurs in every secret matched above."""

_SHORTEST_PART = 4
"""The fewest characters of a secret's beginning that are masked at the end of a text."""


def scrub(text: str) -> str:
    """Return the text with keys, tokens and their hashes replaced."""
    if not _MAY_HOLD_SECRET.search(text):  # nearly every access log line
        return text
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def mask_values(text: str, secrets: Iterable[str], *, may_be_cut: bool = False) -> str:
    """Return what others wrote without these secrets; empty ones are ignored.

    Of a text that ``may_be_cut``, perhaps within a secret, the beginning of one at its end is
    masked, too.
    """
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
        if may_be_cut:
            text = _mask_part_at_end(text, secret)
    return text


def _mask_part_at_end(text: str, secret: str) -> str:
    body = text.removesuffix("…")
    for size in range(min(len(secret), len(body)), _SHORTEST_PART - 1, -1):
        if body.endswith(secret[:size]):
            return f"{body[:-size]}***{text[len(body) :]}"
    return text


def escape_unprintable(text: str) -> str:
    """Return the text on one line, with control and bidirectional characters escaped."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character
        if unicodedata.category(character)[0] not in "CZ" or character == " "
        else character.encode("unicode_escape").decode()
        for character in text
    )


def escape_lines(text: str) -> str:
    """Return the text as ``escape_unprintable`` does, but keep line breaks and tabs.

    For text that a person approves: no control or direction character hides or reorders a part.
    """
    lines = (map(escape_unprintable, line.split("\t")) for line in text.split("\n"))
    return "\n".join(map("\t".join, lines))
