"""Whether spans are sent, and to where: follows the settings."""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from agentd.core.errors import AgentdError
from agentd.core.tasks import BackgroundTasks
from agentd.gateway.service_log.note import Level
from agentd.gateway.settings.model import TracingSettings
from agentd.gateway.tracing.destination import TraceDestination, find_destination, is_configured

if TYPE_CHECKING:
    from agentd.gateway.tracing.spans import SpanSender

log = logging.getLogger(__name__)

FLUSH_SECONDS = 3.0
"""Seconds for which a stop waits until the last spans are sent."""

MISSING = (
    "No spans are sent: OpenTelemetry's library is missing; install agentd-workstation[otel]"
    " and restart agentd"
)


class TracingService:
    """Opens and closes the sender of spans. ``note`` writes to the service log."""

    def __init__(self, environ: Mapping[str, str], note: Callable[[Level, str, str], None]) -> None:
        self.sender: SpanSender | None = None
        """None: no spans are made."""
        self._environ = environ
        self._note = note
        self._applied = TracingSettings(enabled=False)
        self._changing = asyncio.Lock()
        self._tasks = BackgroundTasks()
        self._is_failing = False

    def follow(self, settings: TracingSettings) -> None:
        """Send spans as the settings say, soon; problems are in the service log."""
        if settings == self._applied:
            return
        self._applied = settings
        if is_configured(settings, self._environ) or self.sender or self._tasks:
            self._tasks.start(self._apply(settings))

    async def _apply(self, settings: TracingSettings) -> None:
        async with self._changing:
            old, self.sender = self.sender, None
            if old:
                _close_in_thread(old, asyncio.get_running_loop().create_future())
            try:
                to = await asyncio.to_thread(find_destination, settings, self._environ)
                if to is None:
                    return
                self.sender = await asyncio.to_thread(self._open, to, asyncio.get_running_loop())
            except AgentdError as error:
                self._warn(f"No spans are sent: {error.message}")
            except ImportError:
                self._warn(MISSING)
            except ValueError as error:  # of a variable that the library reads
                self._warn(f"No spans are sent: {error}")
            else:
                self._is_failing = False
                self._note("info", "tracing_started", f"Spans are sent to {to.endpoint}")

    async def close(self) -> None:
        """Send the last spans, for a limited time."""
        await self._tasks.cancel()
        old, self.sender = self.sender, None
        if old is None:
            return
        sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        _close_in_thread(old, sent)
        try:
            await asyncio.wait_for(sent, FLUSH_SECONDS)
        except TimeoutError:
            log.warning("the last spans were not accepted within %s s", FLUSH_SECONDS)

    def _open(self, to: TraceDestination, loop: asyncio.AbstractEventLoop) -> "SpanSender":
        from agentd.gateway.tracing.spans import SpanSender  # noqa: PLC0415 - an extra, and heavy

        # Its thread reports each failure with a traceback; ``_on_sent`` tells of the first.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        return SpanSender(to, lambda ok: _call_on_loop(loop, lambda: self._on_sent(ok)))

    def _on_sent(self, is_accepted: bool) -> None:
        if is_accepted and self._is_failing:
            self._note("info", "tracing_recovered", "The collector accepts spans again")
        elif not is_accepted and not self._is_failing:
            self._warn("The collector does not accept spans; they are dropped until it does")
        self._is_failing = not is_accepted

    def _warn(self, text: str) -> None:
        log.warning("%s", text)
        self._note("warning", "tracing_failed", text)


def _close_in_thread(sender: "SpanSender", done: "asyncio.Future[None]") -> None:
    """Close a sender in a thread that the end of the process does not wait for."""
    loop = asyncio.get_running_loop()

    def close() -> None:
        sender.close()
        _call_on_loop(loop, lambda: None if done.done() else done.set_result(None))

    threading.Thread(target=close, name="tracing-close", daemon=True).start()


def _call_on_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Call something on the loop, unless it is closed."""
    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:
        log.debug("the loop is closed")
