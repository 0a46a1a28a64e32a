"""Disabling a channel whose supplier refuses its key again and again."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from agentd.core.clock import Clock
from agentd.core.errors import AgentdError
from agentd.core.tasks import BackgroundTasks
from agentd.gateway.channels.model import AutomaticDisabling, Channel
from agentd.gateway.service_log.note import Level

ChannelDisabler: TypeAlias = Callable[[Channel, AutomaticDisabling], Awaitable[bool]]
"""Disables a channel, unless it was changed since; returns whether it did."""


class DisablingLog(Protocol):
    """The service log."""

    def add(self, level: Level, kind: str, text: str, *, channel: str = "") -> None:
        """Queue a note; return before it is written."""
        ...


class RefusedChannels:
    """Disables channels after ``get_limit`` refusals in a row, if it is not ``None``.

    ``disable`` is set by the owner of the channels' file; without it nothing is disabled.
    """

    def __init__(
        self,
        get_limit: Callable[[], int | None],
        log: DisablingLog,
        clock: Clock,
        tasks: BackgroundTasks,
    ) -> None:
        self.disable: ChannelDisabler | None = None
        self._get_limit = get_limit
        self._log = log
        self._clock = clock
        self._tasks = tasks

    def on_refused(self, channel: Channel, count: int) -> bool:
        """Disable a channel if it was refused so often; then the count begins anew."""
        limit = self._get_limit()
        if self.disable is None or limit is None or count < limit:
            return False
        self._tasks.start(self._disable(self.disable, channel, count))
        return True

    async def _disable(self, disable: ChannelDisabler, channel: Channel, count: int) -> None:
        times = "once" if count == 1 else f"{count} times in a row"
        reason = f"The supplier did not accept its key, {times}"
        try:
            is_disabled = await disable(channel, AutomaticDisabling(self._clock.now(), reason))
        except AgentdError as error:
            self._note(channel, f"It should be disabled, but cannot be: {error.message}")
            return
        if is_disabled:
            self._note(channel, f"Disabled: {reason}. Enable it again once its key is right")

    def _note(self, channel: Channel, text: str) -> None:
        self._log.add("error", "channel_disabled", text, channel=channel.name)
