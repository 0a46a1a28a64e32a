"""What one bot works with: its notebook, and its voice."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from agentd.bots.house import MemoryStore
from agentd.bots.markup import parts, plain_parts
from agentd.bots.memory import Memory
from agentd.bots.messenger import Keyboard, Messenger
from agentd.errors import AgentdError, BadRequest, LimitReached, Unauthorized, Unavailable
from agentd.threads import finished

T = TypeVar("T")

log = logging.getLogger("agentd.bots")

FIRST_SECONDS = 1.0
LONGEST_SECONDS = 60.0
"""How long to wait for a network that is gone: twice as long each time, up to this."""
FLOOD_SECONDS = 3600.0
"""The longest that the messenger is let have us wait."""


class Notebook:
    """A bot's memory, and its place on the disk."""

    def __init__(self, store: MemoryStore, bot_id: str, memory: Memory) -> None:
        self.memory = memory
        self._store = store
        self._bot_id = bot_id
        self._writing = asyncio.Lock()

    @classmethod
    async def opened(cls, store: MemoryStore, bot_id: str) -> "Notebook":
        """The bot's memory as it was kept last."""
        return cls(store, bot_id, await asyncio.to_thread(store.load, bot_id))

    async def keep(self) -> None:
        """Return when the disk has what the memory is now; ``Unavailable``."""
        async with self._writing:
            await finished(self._store.save, self._bot_id, self.memory.snapshot())


class Voice:
    """Says things, however long the network is gone and however slow the messenger wants it.

    It says nothing twice but for one case: when the connection breaks between the messenger's
    taking a message and its saying so. Raises ``Unauthorized`` alone.
    """

    def __init__(self, messenger: Messenger) -> None:
        self._messenger = messenger

    async def say(self, chat: int, markdown: str, keyboard: Keyboard = ()) -> None:
        """Say it, in as many messages as it takes; the buttons are below the last."""
        pieces = parts(markdown) or (["…"] if keyboard else [])
        for number, piece in enumerate(pieces, 1):
            keys = keyboard if number == len(pieces) else ()
            try:
                await self._patiently(self._sending(chat, piece, keys, html=True))
            except BadRequest as error:
                log.warning("a message is sent without its styles: %s", error.message)
                await self._plainly(chat, markdown, keyboard)
                return
            except Unauthorized:
                raise
            except AgentdError as error:
                log.warning("nothing can be said in conversation %d: %s", chat, error.message)
                return

    async def note(self, press: str, text: str) -> None:
        """Answer a pressed button; it is no harm when that cannot be done."""
        try:
            await self._messenger.acknowledge(press, text)
        except Unauthorized:
            raise
        except AgentdError as error:
            log.info("a press was not acknowledged: %s", error.message)

    async def typing(self, chat: int) -> None:
        """Show that an answer is being made; it is no harm when that cannot be done."""
        try:
            await self._messenger.typing(chat)
        except Unauthorized:
            raise
        except AgentdError as error:
            log.debug("typing was not shown: %s", error.message)

    async def _plainly(self, chat: int, text: str, keyboard: Keyboard) -> None:
        pieces = plain_parts(text) or ["…"]
        for number, piece in enumerate(pieces, 1):
            keys = keyboard if number == len(pieces) else ()
            try:
                await self._patiently(self._sending(chat, piece, keys, html=False))
            except Unauthorized:
                raise
            except AgentdError as error:
                log.warning("a message to conversation %d is lost: %s", chat, error.message)
                return

    def _sending(
        self, chat: int, text: str, keyboard: Keyboard, *, html: bool
    ) -> Callable[[], Awaitable[None]]:
        return lambda: self._messenger.send(chat, text, keyboard, html=html)

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """The call's answer, once the network and the messenger allow it."""
        waits = delays()
        while True:
            try:
                return await call()
            except AgentdError as error:
                if not passing(error):
                    raise
                await asyncio.sleep(delay_after(error, waits))


def passing(error: AgentdError) -> bool:
    """Whether trying later may help without anybody's doing."""
    return isinstance(error, Unavailable | LimitReached)


def delays() -> Iterator[float]:
    """How long to wait after each failure in a row, in seconds."""
    seconds = FIRST_SECONDS
    while True:
        yield seconds
        seconds = min(2 * seconds, LONGEST_SECONDS)


def delay_after(error: AgentdError, waits: Iterator[float]) -> float:
    """Seconds to wait: as the messenger says, or the next of ``waits``."""
    if isinstance(error, LimitReached):
        return min(max(float(error.retry_after), 0.0), FLOOD_SECONDS)
    return next(waits)
