"""Polls the messenger for one bot: connects, handles updates and retries until it is cancelled.

An update is acknowledged only by asking for the next one, which happens when all that it caused
is durable. Transient failures (no network, too many calls, another program that
polls) are retried; what only a person can fix (the token, a missing library) is reported in the
bot's status and tried again every quarter of an hour.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from agentd.bots.messenger import BotAccount, IncomingUpdate, Messenger
from agentd.bots.model import BotSettings, BotStatus
from agentd.bots.reply_forwarder import ReplyForwarder
from agentd.bots.runtime import (
    FIRST_SECONDS,
    MessageSender,
    SavedState,
    get_delay,
    iter_delays,
    log,
)
from agentd.bots.services import BotServices, BotStateStore
from agentd.bots.state import BotState
from agentd.bots.update_handler import Reply, UpdateHandler
from agentd.core.errors import AgentdError, ConfigError, Conflict, Unauthorized, Unavailable
from agentd.core.redaction import scrub

T = TypeVar("T")

POLL_SECONDS = 30
"""The seconds for which the messenger may hold a request for updates open."""
REVOKED_SECONDS = 900.0
"""The pause between attempts with a token that was refused."""
CONFLICT_SECONDS = 30.0
"""The pause between attempts while another program polls for the same bot."""
EDITED_SECONDS = 1.0
"""Seconds between looks at settings that somebody has just changed."""
LEAVE_SECONDS = 3.0
"""The seconds that a message being sent may take when the bot stops."""
MOST_STRANGERS = 1000
"""Unknown users that are remembered, so that each is logged once."""


class _Session(NamedTuple):
    """The objects of a connected bot."""

    messenger: Messenger
    saved: SavedState
    handler: UpdateHandler
    forwarder: ReplyForwarder

    @property
    def state(self) -> BotState:
        return self.saved.state


class BotPoller:
    """An enabled bot and its polling.

    ``is_current`` returns whether ``bots.yml`` still has these settings.
    """

    def __init__(
        self,
        settings: BotSettings,
        connect: Callable[[BotSettings], Awaitable[Messenger]],
        store: BotStateStore,
        services: BotServices,
        is_current: Callable[[BotSettings], Awaitable[bool]],
        changed: Callable[[], None],
    ) -> None:
        self.settings = settings
        self._connect = connect
        self._store = store
        self._services = services
        self._is_current = is_current
        self._changed = changed
        self._running = False
        self._problem: str | None = None
        self._strangers: set[int] = set()
        self._saved: SavedState | None = None
        """The state of the bot, once it was loaded."""

    @property
    def status(self) -> BotStatus:
        """The bot's status, as the API shows it."""
        bot = self.settings
        return BotStatus(bot.id, bot.name, bot.enabled, self._running, self._problem)

    async def run(self) -> None:
        """Poll until cancelled."""
        waits = iter_delays()
        try:
            while True:
                try:
                    await self._run_session()
                except (Unauthorized, ConfigError) as error:
                    self._set_status(running=False, problem=error.message)
                    await asyncio.sleep(REVOKED_SECONDS)
                except Unavailable as error:
                    self._set_status(running=False, problem=error.message)
                    await asyncio.sleep(next(waits))
        finally:
            self._set_status(running=False, problem=self._problem)

    async def forget_chat(self, chat: int) -> bool:
        """Drop a chat that was removed for ever from the state; False if that is not loaded.

        Raises ``Unavailable`` when the disk fails.
        """
        if self._saved and self._saved.state.forget_chat(chat):
            await self._saved.save()
        return self._saved is not None

    def report_crash(self, error: BaseException) -> None:
        """Show in the status that the poller failed with an unexpected error."""
        log.error("the bot %s stopped after an unexpected error", self.settings.id, exc_info=error)
        self._set_status(running=False, problem="it stopped after an unexpected error; see the log")

    async def _run_session(self) -> None:
        messenger = await self._connect(self.settings)
        try:
            saved = self._saved = await SavedState.load(self._store, self.settings.id)
            account = await self._connect_account(messenger)
            saved.state.use_account(account.id)
            sender = MessageSender(messenger)
            forwarder = ReplyForwarder(self._services, saved, sender, self.settings.users)
            handler = UpdateHandler(
                self.settings, self._services, saved.state, messenger, account.name
            )
            await self._serve(_Session(messenger, saved, handler, forwarder))
        finally:
            await messenger.close()

    async def _serve(self, session: _Session) -> None:
        """Poll and forward until one of them fails or the bot is stopped."""
        forwarder = session.forwarder
        forwarding = asyncio.create_task(forwarder.run())
        polling = asyncio.create_task(self._poll_forever(session))
        try:
            done, _ = await asyncio.wait((polling, forwarding), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            polling.cancel()
            await asyncio.wait((polling,))
            forwarder.leave()
            await asyncio.wait((forwarding,), timeout=LEAVE_SECONDS)
            forwarding.cancel()
            await asyncio.gather(polling, forwarding, return_exceptions=True)

    async def _connect_account(self, messenger: Messenger) -> BotAccount:
        """Return the bot's account; waits for the network."""
        waits = iter_delays()
        while True:
            try:
                account = await messenger.connect()
            except (Unauthorized, ConfigError):
                raise
            except AgentdError as error:
                self._set_status(running=True, problem=error.message)
                await asyncio.sleep(get_delay(error, waits))
                continue
            self._set_status(running=True, problem=None)
            log.info("the bot %s is %s at %s", self.settings.id, account.name, self.settings.kind)
            return account

    async def _poll_forever(self, session: _Session) -> None:
        waits = iter_delays()
        while True:
            try:
                fresh = await self._poll_updates(session)
            except Unauthorized:
                raise
            except AgentdError as error:
                self._set_status(running=True, problem=error.message)
                conflict = isinstance(error, Conflict)
                await asyncio.sleep(CONFLICT_SECONDS if conflict else get_delay(error, waits))
                continue
            self._set_status(running=True, problem=None)
            waits = iter_delays()
            for update in fresh:
                await self._handle(update, session)

    async def _poll_updates(self, session: _Session) -> list[IncomingUpdate]:
        """Fetch the updates that were not handled yet, at a bounded rate."""
        clock, state = self._services.clock, session.state
        offset = state.get_next_offset(clock.now())
        seconds = 0 if self._problem else POLL_SECONDS  # ask at once whether the problem is over
        began = clock.monotonic()
        updates = await session.messenger.get_updates(offset, seconds)
        fresh = [update for update in updates if update.id >= offset]
        if updates and not fresh:
            raise Unavailable("the messenger repeats updates that were acknowledged")
        if not fresh and seconds and clock.monotonic() - began < FIRST_SECONDS:
            await asyncio.sleep(FIRST_SECONDS)  # the server ignores the timeout
        return fresh

    async def _await_own_settings(self) -> None:
        """Return at once while ``bots.yml`` has these settings.

        Else this is cancelled soon, and the bot with the new settings gets the update; unless the
        old ones are back before anybody has seen the others.
        """
        while not await self._is_current(self.settings):  # noqa: ASYNC110 - nobody tells it
            await asyncio.sleep(EDITED_SECONDS)

    async def _handle(self, update: IncomingUpdate, session: _Session) -> None:
        """Handle one update, save that it is handled, then have the reply sent."""
        await self._await_own_settings()
        reply = Reply()
        if update.moved_to:
            session.forwarder.move(update.chat, update.moved_to)
        elif update.user in self.settings.users:
            if session.handler.answers_open_question(update):
                # Lost if this ends now, instead of answering the next question after a restart.
                await self._save_handled(update, session)
            reply = await self._retry_until_stored(lambda: session.handler.handle(update))
            session.state.note_user(update.chat, update.user)
        else:
            self._ignore_stranger(update)
        await self._save_handled(update, session)
        session.forwarder.reply(update, reply)

    async def _save_handled(self, update: IncomingUpdate, session: _Session) -> None:
        session.state.mark_handled(update.id, self._services.clock.now())
        await self._retry_until_stored(session.saved.save)

    async def _retry_until_stored(self, step: Callable[[], Awaitable[T]]) -> T:
        """Return the step's result; retry while the disk fails."""
        waits = iter_delays()
        while True:
            try:
                return await step()
            except Unavailable as error:
                self._set_status(running=True, problem=error.message)
                await asyncio.sleep(next(waits))

    def _ignore_stranger(self, update: IncomingUpdate) -> None:
        if not update.user or update.user in self._strangers:
            return
        if len(self._strangers) < MOST_STRANGERS:
            self._strangers.add(update.user)
            log.warning("the bot %s ignores user %d", self.settings.id, update.user)

    def _set_status(self, *, running: bool, problem: str | None) -> None:
        problem = scrub(problem) if problem else None
        if (running, problem) == (self._running, self._problem):
            return
        if problem and problem != self._problem:
            log.warning("the bot %s: %s", self.settings.id, problem)
        self._running, self._problem = running, problem
        self._changed()
