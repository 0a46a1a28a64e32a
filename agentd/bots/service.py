"""Runs the configured bots: starts new ones, restarts changed ones, stops removed ones."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from agentd.bots.messenger import BotAccount, Messenger
from agentd.bots.model import BotDirectory, BotSettings, BotStatus
from agentd.core.errors import AgentdError, ConfigProblem, NotFound, Unavailable, suggest_name

if TYPE_CHECKING:
    from agentd.bots.polling import BotPoller

R = TypeVar("R")


class BotFile(Protocol):
    """``bots.yml`` for editing (``bots.store``). All methods block.

    Each may raise ``Conflict``, ``ConfigError`` and ``Unavailable``.
    """

    def add(self, bot: BotSettings) -> None:
        """Add one; ``Conflict`` when there is one of this id."""
        ...

    def change(self, bot: BotSettings) -> None:
        """Replace the settings of the bot with this id; ``NotFound``."""
        ...

    def remove(self, bot_id: str) -> None:
        """Remove one; ``NotFound``."""
        ...


class BotsConfig(Protocol):
    """The last valid content of ``bots.yml`` (``storage.watched_file.WatchedFile``)."""

    @property
    def current(self) -> Sequence[BotSettings]:
        """The content in effect."""
        ...

    @property
    def problems(self) -> Sequence[ConfigProblem]:
        """Why the present file is not in effect; empty when it is."""
        ...

    async def write(self, change: Callable[[], R]) -> R:
        """Run what changes the file; in effect on return."""
        ...

    async def ensure_current(self) -> None:
        """Apply an edit of the file that was not noticed yet."""
        ...


class BotStates(Protocol):
    """The states of all bots on disk (``bots.store.BotStateFiles``)."""

    def forget_chat(self, chat: int, loaded: Collection[str]) -> None:
        """Drop a chat from all but those that are ``loaded``; blocks, ``Unavailable``."""
        ...


class BotService:
    """Runs the bots of the file, and edits it."""

    def __init__(
        self,
        file: BotFile,
        configured: BotsConfig,
        states: BotStates,
        directory: BotDirectory,
        connect: Callable[[BotSettings], Awaitable[Messenger]],
        build_poller: "Callable[[BotSettings, Callable[[], None]], BotPoller]",
        on_change: Callable[[], None],
    ) -> None:
        self._file = file
        self._states = states
        self._configured = configured
        self._directory = directory
        self._connect = connect
        self._build_poller = build_poller
        self._on_change = on_change
        self._pollers: dict[str, tuple[BotPoller, asyncio.Task[None]]] = {}
        self._changed = asyncio.Event()

    async def ensure_current(self) -> None:
        """Apply an edit of the file that was not noticed yet; called before a request."""
        await self._configured.ensure_current()

    async def get_bots(self) -> BotDirectory:
        """Return the bots as the remote API shows them, from the file as it is now."""
        await self.ensure_current()
        return self._directory

    async def is_current(self, bot: BotSettings) -> bool:
        """Return whether the file, as it is now, has a bot with these settings.

        The watcher reports an edit some moments later; no removed user is obeyed until then.
        """
        await self.ensure_current()
        return bot in self._configured.current

    @property
    def configured(self) -> Sequence[BotSettings]:
        """The bots as they are configured, in the file's order."""
        return self._configured.current

    @property
    def problems(self) -> Sequence[ConfigProblem]:
        """The problems of the file; its last valid content stays in effect."""
        return self._configured.problems

    def find_status(self, bot_id: str) -> BotStatus | None:
        """Return the status of a bot."""
        return next((bot for bot in self._directory.list_bots() if bot.id == bot_id), None)

    def on_file_changed(self) -> None:
        """Apply a change of the file."""
        self._publish_statuses()
        self._changed.set()

    async def add(self, bot: BotSettings) -> None:
        """Add a bot; in effect on return."""
        await self._configured.write(partial(self._file.add, bot))

    async def change(self, bot: BotSettings) -> None:
        """Replace the settings of the bot with this id; in effect on return."""
        await self._configured.write(partial(self._file.change, bot))

    async def remove(self, bot_id: str) -> None:
        """Remove a bot; in effect on return."""
        await self._configured.write(partial(self._file.remove, bot_id))

    async def check(self, bot: BotSettings) -> BotAccount:
        """Ask the messenger whose token it is, also while the bot runs or is switched off.

        Raises an ``AgentdError`` with the reason; it contains no token.
        """
        messenger = await self._connect(bot)
        try:
            return await messenger.connect()
        finally:
            with suppress(AgentdError):
                await messenger.close()

    async def send_notice(self, bot_id: str, chat: int, text: str) -> None:
        """Send plain text to a conversation, by a bot that is enabled.

        Raises an ``AgentdError`` with the reason; it contains no token.
        """
        await self.ensure_current()
        bot = next((one for one in self.configured if one.id == bot_id), None)
        if bot is None:
            known = [one.id for one in self.configured]
            raise NotFound(f'There is no bot "{bot_id[:64]}"{suggest_name(bot_id, known)}')
        if not bot.enabled:
            raise Unavailable(f'The bot "{bot_id}" is disabled')
        messenger = await self._connect(bot)
        try:
            await messenger.connect()
            await messenger.send(chat, text, (), html=False)
        finally:
            with suppress(AgentdError):
                await messenger.close()

    async def forget_chat(self, chat: int) -> None:
        """Drop a chat that was removed for ever from the states of all bots; ``Unavailable``."""
        pollers = {bot_id: poller for bot_id, (poller, _) in self._pollers.items()}
        loaded = [one for one, poller in pollers.items() if await poller.forget_chat(chat)]
        await asyncio.to_thread(self._states.forget_chat, chat, loaded)

    async def run(self) -> None:
        """Run the configured bots until cancelled; then stop them all."""
        self._publish_statuses()
        self._changed.set()
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._reconcile()
        finally:
            await self._stop(list(self._pollers))

    async def _reconcile(self) -> None:
        wanted = {bot.id: bot for bot in self._configured.current if bot.enabled}
        gone = [
            bot_id
            for bot_id, (poller, _) in self._pollers.items()
            if wanted.get(bot_id) != poller.settings
        ]
        await self._stop(gone)
        for bot_id, bot in wanted.items():
            if bot_id not in self._pollers:
                poller = self._build_poller(bot, self._publish_statuses)
                task = asyncio.create_task(poller.run())
                task.add_done_callback(partial(_report_crash, poller))
                self._pollers[bot_id] = poller, task
        self._publish_statuses()

    async def _stop(self, bot_ids: list[str]) -> None:
        tasks = [self._pollers[bot_id][1] for bot_id in bot_ids]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for bot_id in bot_ids:
            del self._pollers[bot_id]

    def _publish_statuses(self) -> None:
        bots = tuple(self._make_status(bot) for bot in self._configured.current)
        if bots != self._directory.list_bots():
            self._directory.replace_all(bots)
            self._on_change()

    def _make_status(self, bot: BotSettings) -> BotStatus:
        if bot.id in self._pollers:
            poller = self._pollers[bot.id][0]
            if poller.settings == bot:
                return poller.status
        return BotStatus(bot.id, bot.name, bot.enabled, running=False)


def _report_crash(poller: "BotPoller", task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()):
        poller.report_crash(error)
