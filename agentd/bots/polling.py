"""The life of one bot: it connects, listens and answers until it is told to end.

An update is acknowledged only by asking for the next one, which happens when all that it caused
is durable. What may pass (no network, too many calls, another program that polls) is waited out;
what only a person can mend (the token, a missing library) is told and looked at again seldom.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from agentd.bots.answering import Answering, Reply
from agentd.bots.house import House, MemoryStore
from agentd.bots.memory import Memory
from agentd.bots.messenger import Incoming, Messenger
from agentd.bots.telling import Telling
from agentd.bots.work import (
    FIRST_SECONDS,
    Notebook,
    Voice,
    delay_after,
    delays,
    log,
)
from agentd.catalog.bots import Bot, BotSettings
from agentd.errors import AgentdError, Conflict, Misconfigured, Unauthorized, Unavailable
from agentd.redaction import scrub

T = TypeVar("T")

POLL_SECONDS = 30
"""How long the messenger holds a question for updates."""
REVOKED_SECONDS = 900.0
"""After so long it is looked whether a person has mended it."""
CONFLICT_SECONDS = 30.0
"""While another program polls for the same bot."""
LEAVE_SECONDS = 3.0
"""How long what is being said may take to be said and noted when the bot is to end."""
MOST_STRANGERS = 1000
"""Strangers that are remembered, each to be logged once."""


class _AtWork(NamedTuple):
    """All that a connected bot has."""

    messenger: Messenger
    notebook: Notebook
    voice: Voice
    answering: Answering
    telling: Telling

    @property
    def memory(self) -> Memory:
        return self.notebook.memory


class Polling:
    """One enabled bot."""

    def __init__(
        self,
        settings: BotSettings,
        connect: Callable[[BotSettings], Awaitable[Messenger]],
        store: MemoryStore,
        house: House,
        changed: Callable[[], None],
    ) -> None:
        self.settings = settings
        self._connect = connect
        self._store = store
        self._house = house
        self._changed = changed
        self._running = False
        self._trouble: str | None = None
        self._strangers: set[int] = set()

    @property
    def shown(self) -> Bot:
        """As others see it."""
        bot = self.settings
        return Bot(bot.id, bot.name, bot.enabled, self._running, self._trouble)

    async def run(self) -> None:
        """Live until it is cancelled."""
        waits = delays()
        try:
            while True:
                try:
                    await self._session()
                except (Unauthorized, Misconfigured) as error:
                    self._stand(running=False, trouble=error.message)
                    await asyncio.sleep(REVOKED_SECONDS)
                except Unavailable as error:
                    self._stand(running=False, trouble=error.message)
                    await asyncio.sleep(next(waits))
        finally:
            self._stand(running=False, trouble=self._trouble)

    def broke_down(self, error: BaseException) -> None:
        """Its life ended by a mistake of ours."""
        log.error("the bot %s broke down", self.settings.id, exc_info=error)
        self._stand(running=False, trouble="it broke down; the log tells why")

    async def _session(self) -> None:
        messenger = await self._connect(self.settings)
        try:
            notebook = await Notebook.opened(self._store, self.settings.id)
            notebook.memory.belongs_to(await self._account(messenger))
            voice = Voice(messenger)
            telling = Telling(self._house, notebook, voice)
            task = asyncio.create_task(telling.run())
            task.add_done_callback(_look)
            try:
                answering = Answering(self.settings, self._house, notebook.memory, messenger)
                await self._listen(_AtWork(messenger, notebook, voice, answering, telling))
            finally:
                telling.leave()
                await asyncio.wait([task], timeout=LEAVE_SECONDS)
                task.cancel()
                await asyncio.wait([task])
        finally:
            await messenger.close()

    async def _account(self, messenger: Messenger) -> int:
        """The bot's number; waits for the network."""
        waits = delays()
        while True:
            try:
                account = await messenger.connect()
            except (Unauthorized, Misconfigured):
                raise
            except AgentdError as error:
                self._stand(running=True, trouble=error.message)
                await asyncio.sleep(delay_after(error, waits))
                continue
            self._stand(running=True, trouble=None)
            log.info("the bot %s is %s at %s", self.settings.id, account.name, self.settings.kind)
            return account.id

    async def _listen(self, at_work: _AtWork) -> None:
        waits = delays()
        while True:
            try:
                fresh = await self._news(at_work)
            except Unauthorized:
                raise
            except AgentdError as error:
                self._stand(running=True, trouble=error.message)
                conflict = isinstance(error, Conflict)
                await asyncio.sleep(CONFLICT_SECONDS if conflict else delay_after(error, waits))
                continue
            self._stand(running=True, trouble=None)
            waits = delays()
            for said in fresh:
                await self._handle(said, at_work)

    async def _news(self, at_work: _AtWork) -> list[Incoming]:
        """The updates that were not handled yet; asked for no faster than they can come."""
        clock, memory = self._house.clock, at_work.memory
        offset = memory.next_offset(clock.now())
        seconds = 0 if self._trouble else POLL_SECONDS  # is it over?
        began = clock.monotonic()
        updates = await at_work.messenger.updates(offset, seconds)
        fresh = [said for said in updates if said.update >= offset]
        if updates and not fresh:
            raise Unavailable("the messenger repeats what it was told is handled")
        if not fresh and seconds and clock.monotonic() - began < FIRST_SECONDS:
            await asyncio.sleep(FIRST_SECONDS)  # it does not wait as it was asked to
        return fresh

    async def _handle(self, said: Incoming, at_work: _AtWork) -> None:
        """Carry out one update, note it, then say what there is to say of it."""
        reply = Reply()
        if said.user in self.settings.users:
            reply = await self._durably(lambda: at_work.answering.carry_out(said))
        else:
            self._pass_over(said)
        at_work.memory.heard(said.update, self._house.clock.now())
        await self._durably(at_work.notebook.keep)
        if link := at_work.memory.links.get(said.chat):
            at_work.telling.wake(link.chat)
        if said.press and reply != Reply():
            await at_work.voice.note(said.press, reply.note or reply.text)
        if not (said.press and reply.note):
            await at_work.voice.say(said.chat, reply.text)

    async def _durably(self, step: Callable[[], Awaitable[T]]) -> T:
        """What the step gives, once the disk takes it."""
        waits = delays()
        while True:
            try:
                return await step()
            except Unavailable as error:
                self._stand(running=True, trouble=error.message)
                await asyncio.sleep(next(waits))

    def _pass_over(self, said: Incoming) -> None:
        if not said.user or said.user in self._strangers:
            return
        if len(self._strangers) < MOST_STRANGERS:
            self._strangers.add(said.user)
            log.warning("the bot %s ignores user %d", self.settings.id, said.user)

    def _stand(self, *, running: bool, trouble: str | None) -> None:
        trouble = scrub(trouble) if trouble else None
        if (running, trouble) == (self._running, self._trouble):
            return
        if trouble and trouble != self._trouble:
            log.warning("the bot %s: %s", self.settings.id, trouble)
        self._running, self._trouble = running, trouble
        self._changed()


def _look(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()):
        log.error("what the chats say is told no more", exc_info=error)
