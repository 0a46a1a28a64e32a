"""The state of one bot on disk, the sender of its messages, and how long to wait before retries."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from agentd.bots.messenger import Keyboard, Messenger
from agentd.bots.services import BotStateStore
from agentd.bots.state import BotState
from agentd.bots.telegram_html import render_parts, split_plain
from agentd.core.errors import AgentdError, BadRequest, LimitReached, Unauthorized, Unavailable
from agentd.core.markdown import MAX_INLINE
from agentd.core.threads import run_uncancellable

T = TypeVar("T")

log = logging.getLogger("agentd.bots")

FIRST_SECONDS = 1.0
LONGEST_SECONDS = 60.0
"""The longest pause between attempts without a network; it doubles each time up to this."""
FLOOD_SECONDS = 3600.0
"""The longest pause that the messenger may ask for."""


class SavedState:
    """A bot's state and where it is stored."""

    def __init__(self, store: BotStateStore, bot_id: str, state: BotState) -> None:
        self.state = state
        self._store = store
        self._bot_id = bot_id
        self._writing = asyncio.Lock()

    @classmethod
    async def load(cls, store: BotStateStore, bot_id: str) -> "SavedState":
        """Load the bot's state as last saved."""
        return cls(store, bot_id, await asyncio.to_thread(store.load, bot_id))

    async def save(self) -> None:
        """Save the state as it is now; ``Unavailable``."""
        async with self._writing:
            await run_uncancellable(self._store.save, self._bot_id, self.state.snapshot())


class MessageSender:
    """Sends messages; retries while the network is down or the messenger asks to slow down.

    Delivers at least once: a message is repeated if the connection breaks after the messenger
    took it and before it answered. Raises only ``Unauthorized``.
    """

    def __init__(self, messenger: Messenger) -> None:
        self._messenger = messenger

    async def send(self, chat: int, markdown: str, keyboard: Keyboard = ()) -> None:
        """Send a text in as many messages as needed; the buttons are below the last."""
        pieces = await _split(render_parts, markdown) or (["…"] if keyboard else [])
        for number, piece in enumerate(pieces, 1):
            keys = keyboard if number == len(pieces) else ()
            try:
                await self._retry(self._make_send(chat, piece, keys, html=True))
            except BadRequest as error:
                log.warning(
                    "a message is sent as plain text, its formatting was refused: %s",
                    error.message,
                )
                await self._send_plain(chat, markdown, keyboard)
                return
            except Unauthorized:
                raise
            except AgentdError as error:
                log.warning("a message to conversation %d is lost: %s", chat, error.message)
                return

    async def acknowledge(self, press: str, text: str) -> None:
        """Acknowledge a pressed button; failure is harmless."""
        try:
            await self._messenger.acknowledge(press, text)
        except Unauthorized:
            raise
        except AgentdError as error:
            log.info("a pressed button was not acknowledged: %s", error.message)

    async def show_typing(self, chat: int) -> None:
        """Show the typing indicator; failure is harmless."""
        try:
            await self._messenger.show_typing(chat)
        except Unauthorized:
            raise
        except AgentdError as error:
            log.debug("the typing indicator was not shown: %s", error.message)

    async def _send_plain(self, chat: int, text: str, keyboard: Keyboard) -> None:
        pieces = await _split(split_plain, text) or ["…"]
        for number, piece in enumerate(pieces, 1):
            keys = keyboard if number == len(pieces) else ()
            try:
                await self._retry(self._make_send(chat, piece, keys, html=False))
            except Unauthorized:
                raise
            except AgentdError as error:
                log.warning("a message to conversation %d is lost: %s", chat, error.message)
                return

    def _make_send(
        self, chat: int, text: str, keyboard: Keyboard, *, html: bool
    ) -> Callable[[], Awaitable[None]]:
        return lambda: self._messenger.send(chat, text, keyboard, html=html)

    async def _retry(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return the call's result; retry while the network or the messenger prevents it."""
        waits = iter_delays()
        while True:
            try:
                return await call()
            except AgentdError as error:
                if not is_transient(error):
                    raise
                await asyncio.sleep(get_delay(error, waits))


async def _split(split: Callable[[str], list[str]], text: str) -> list[str]:
    """Split a text into messages, a long one in a thread: that may take a third of a second."""
    return split(text) if len(text) <= MAX_INLINE else await asyncio.to_thread(split, text)


def is_transient(error: AgentdError) -> bool:
    """Return whether a later attempt can succeed without anybody changing anything."""
    return isinstance(error, Unavailable | LimitReached)


def iter_delays() -> Iterator[float]:
    """Yield the seconds to wait after each failure in a row."""
    seconds = FIRST_SECONDS
    while True:
        yield seconds
        seconds = min(2 * seconds, LONGEST_SECONDS)


def get_delay(error: AgentdError, waits: Iterator[float]) -> float:
    """Return the seconds to wait: as the messenger says, or the next of ``waits``."""
    if isinstance(error, LimitReached):
        return min(max(float(error.retry_after), 0.0), FLOOD_SECONDS)
    return next(waits)
