"""The formatter of all log records: without secrets, without unprintable characters."""

import logging

from agentd.core.redaction import escape_unprintable, scrub


class LogFormatter(logging.Formatter):
    """A formatter of one scrubbed line per record; the lines of a traceback follow indented."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record, scrubbed."""
        # The base class caches the formatted traceback in the record: one that another formatter
        # left there is not scrubbed, and ours is not meant for others.
        record.exc_text = None
        text = super().format(record)
        record.exc_text = None
        return text

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Return the message on one line."""
        return escape_unprintable(scrub(super().formatMessage(record)))

    def formatException(self, ei: object) -> str:  # noqa: N802
        """Return the traceback, each line marked as a continuation of the record."""
        text = super().formatException(ei)  # type: ignore[arg-type]
        lines = scrub(text).splitlines()
        return "\n".join(f"  | {escape_unprintable(line)}" for line in lines)
