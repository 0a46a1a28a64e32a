"""Nothing secret and nothing unprintable reaches a log line or an error.

One scrubber for access lines, log messages, tracebacks and the details of errors.
"""

import logging
import re
import unicodedata

_SECRETS = (
    (re.compile(r"(?i)\b(api_?key|access_token|token|password)=[^&\s\"']+"), r"\1=***"),
    (re.compile(r"(?i)([?&])id=[^&\s\"']+"), r"\1id=***"),  # of a live connection: a secret
    (re.compile(r"(?i)(x-api-key|authorization|cookie)(['\"]?\s*[:=]\s*)[^\r\n]+"), r"\1\2***"),
    (re.compile(r"agent_[A-Za-z0-9]{32}"), "agent_***"),
    (re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])"), "***"),
)

_SUSPECT = re.compile(r"[=:]|agent_|[0-9a-f]{64}")
"""What every secret above has in it."""


def scrub(text: str) -> str:
    """The text without keys, tokens and their hashes."""
    if not _SUSPECT.search(text):  # nearly every access line: one look instead of four
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


class LogFormatter(logging.Formatter):
    """One line per event, scrubbed; the lines of a traceback follow indented."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """The event, from its own words alone: a traceback that others wrote is not taken over."""
        record.exc_text = None
        text = super().format(record)
        record.exc_text = None
        return text

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """The message on one line."""
        return scrub(visible(super().formatMessage(record)))

    def formatException(self, ei: object) -> str:  # noqa: N802
        """The traceback, each line marked as belonging to the one above."""
        text = super().formatException(ei)  # type: ignore[arg-type]
        return scrub("\n".join(f"  | {visible(line)}" for line in text.splitlines()))
