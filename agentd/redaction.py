"""Nothing secret and nothing unprintable reaches a log line, an error or a chat by accident.

The one place that knows what a secret looks like.
"""

import re
import unicodedata

_SECRETS = (
    (re.compile(r"(?i)\b(api_?key|access_token|token|password)=[^&\s\"']+"), r"\1=***"),
    (re.compile(r"(?i)([?&])id=[^&\s\"']+"), r"\1id=***"),  # of a live connection: a secret
    (re.compile(r"(?i)(x-api-key|authorization|cookie)(['\"]?\s*[:=]\s*)[^\r\n]+"), r"\1\2***"),
    (re.compile(r"\b([Bb]earer\s+)[^\s\"',;]{8,}"), r"\1***"),
    (re.compile(r"agent_[A-Za-z0-9]{32}"), "agent_***"),
    (re.compile(r"\bsk-[A-Za-z0-9_-]{16,}"), "sk-***"),  # a supplier's
    (re.compile(r"(?<![0-9])[0-9]{6,}(:|%3[Aa])[A-Za-z0-9_-]{30,}"), "***"),  # a Telegram bot's
    (re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])"), "***"),
)

_SUSPECT = re.compile(r"[=:]|%3[Aa]|agent_|\bsk-|[Bb]earer\s|[0-9a-f]{64}")
"""What every secret above has in it."""


def scrub(text: str) -> str:
    """The text without keys, tokens and their hashes."""
    if not _SUSPECT.search(text):  # nearly every access line: one look instead of many
        return text
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def visible(text: str) -> str:
    """The text on one line: what would move a cursor or turn the writing around is escaped."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character
        if unicodedata.category(character)[0] not in "CZ" or character == " "
        else character.encode("unicode_escape").decode()
        for character in text
    )
