"""All bots: who is configured runs, who is changed begins anew, who is removed ends."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from agentd.catalog.bots import Bot, Bots, BotSettings
from agentd.errors import Mistake

if TYPE_CHECKING:
    from agentd.bots.polling import Polling


class BotFile(Protocol):
    """``bots.yml``, for who edits it (``disk.bots``). All block.

    Each may raise ``Conflict``, ``Misconfigured`` and ``Unavailable``.
    """

    def add(self, bot: BotSettings) -> None:
        """One more; ``Conflict`` when there is one of this id."""
        ...

    def change(self, bot: BotSettings) -> None:
        """The bot of this id is to be so; ``NotFound``."""
        ...

    def remove(self, bot_id: str) -> None:
        """One less; ``NotFound``."""
        ...


class Configured(Protocol):
    """``bots.yml`` as it last was without a mistake (``disk.reload.Reloaded``)."""

    @property
    def current(self) -> Sequence[BotSettings]:
        """What holds now."""
        ...

    @property
    def mistakes(self) -> Sequence[Mistake]:
        """Why the file as it is now is not taken; empty when it is."""
        ...

    async def refresh(self) -> None:
        """Take in what the file says now."""
        ...

    async def ensure_current(self) -> None:
        """Take in an edit that nobody has noticed yet."""
        ...


class BotService:
    """Runs the bots of the file, and edits it."""

    def __init__(
        self,
        file: BotFile,
        configured: Configured,
        shown: Bots,
        make: "Callable[[BotSettings, Callable[[], None]], Polling]",
        told: Callable[[], None],
    ) -> None:
        self._file = file
        self._configured = configured
        self._shown = shown
        self._make = make
        self._told = told
        self._alive: dict[str, tuple[Polling, asyncio.Task[None]]] = {}
        self._changed = asyncio.Event()

    async def ensure_current(self) -> None:
        """Take in an edit of the file that nobody has noticed yet; called before a request."""
        await self._configured.ensure_current()

    async def get_bots(self) -> Bots:
        """The bots as the remote API shows them, by the file as it is at the call."""
        await self.ensure_current()
        return self._shown

    @property
    def configured(self) -> Sequence[BotSettings]:
        """The bots as they are configured, in the file's order."""
        return self._configured.current

    @property
    def mistakes(self) -> Sequence[Mistake]:
        """What is wrong with the file; what it said before stays in force."""
        return self._configured.mistakes

    def shown(self, bot_id: str) -> Bot | None:
        """How a bot stands."""
        return next((bot for bot in self._shown.list() if bot.id == bot_id), None)

    def file_changed(self) -> None:
        """The file says something else."""
        self._show()
        self._changed.set()

    async def add(self, bot: BotSettings) -> None:
        """One more bot; in force at the return."""
        await asyncio.to_thread(self._file.add, bot)
        await self._configured.refresh()

    async def change(self, bot: BotSettings) -> None:
        """The bot of this id is to be so; in force at the return."""
        await asyncio.to_thread(self._file.change, bot)
        await self._configured.refresh()

    async def remove(self, bot_id: str) -> None:
        """One bot less; in force at the return."""
        await asyncio.to_thread(self._file.remove, bot_id)
        await self._configured.refresh()

    async def run(self) -> None:
        """Keep the right bots alive until cancelled; then end them all."""
        self._show()
        self._changed.set()
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._reconcile()
        finally:
            await self._end(list(self._alive))

    async def _reconcile(self) -> None:
        wanted = {bot.id: bot for bot in self._configured.current if bot.enabled}
        gone = [
            bot_id
            for bot_id, (polling, _) in self._alive.items()
            if wanted.get(bot_id) != polling.settings
        ]
        await self._end(gone)
        for bot_id, bot in wanted.items():
            if bot_id not in self._alive:
                polling = self._make(bot, self._show)
                task = asyncio.create_task(polling.run())
                task.add_done_callback(partial(_ended, polling))
                self._alive[bot_id] = polling, task
        self._show()

    async def _end(self, bot_ids: list[str]) -> None:
        tasks = [self._alive[bot_id][1] for bot_id in bot_ids]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for bot_id in bot_ids:
            del self._alive[bot_id]

    def _show(self) -> None:
        bots = tuple(self._as_shown(bot) for bot in self._configured.current)
        if bots != self._shown.list():
            self._shown.become(bots)
            self._told()

    def _as_shown(self, bot: BotSettings) -> Bot:
        if bot.id in self._alive:
            polling = self._alive[bot.id][0]
            if polling.settings == bot:
                return polling.shown
        return Bot(bot.id, bot.name, bot.enabled, running=False)


def _ended(polling: "Polling", task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()):
        polling.broke_down(error)
