"""What is logged is scrubbed: access lines, messages and tracebacks alike."""

import logging

from agentd.redaction import scrub, visible


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
