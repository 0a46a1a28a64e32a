"""A build that fails is given to the agent, until it is green or that was tried often enough.

A prompt with the errors is appended to the build's chat; when the chat has come to rest after
it, the build is triggered again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from msgspec import structs

from agentd.chats.chat import Prompt
from agentd.chats.fold import Summary
from agentd.errors import AgentdError, BadRequest
from agentd.events import AutofixUpdate, BuildUpdate, Bus, ChatUpdate, Event
from agentd.workspace.build import BuildStatus
from agentd.workspace.fixing import AutofixStatus, BuildFix, prompt_for

log = logging.getLogger(__name__)

BY = "autofix"
"""Who appends the prompts and triggers the builds."""


class AutofixStore(Protocol):
    """Where it is kept (``disk.jobs.AutofixFile``). Its methods block."""

    def load(self) -> AutofixStatus:
        """What was kept."""
        ...

    def save(self, status: AutofixStatus) -> None:
        """Keep it. Raises ``Unavailable``."""
        ...


class Chats(Protocol):
    """The chats (``chats.service.ChatService``)."""

    def summary(self, chat_id: int) -> Summary:
        """A chat at a glance; ``NotFound``."""
        ...

    def append(self, chat_id: int, text: str, model: str, by: str) -> Awaitable[Prompt]:
        """A prompt at the end of the queue."""
        ...


class BuildTrigger(Protocol):
    """The builds (``workspace.building.BuildService``)."""

    async def status(self, name: str) -> BuildStatus:
        """What is known of one; ``NotFound``."""
        ...

    def trigger(self, name: str, by: str) -> Awaitable[BuildStatus]:
        """Start one."""
        ...

    def output(self, name: str) -> Awaitable[bytes]:
        """What the last run said."""
        ...


class AutofixService:
    """Hears of builds and chats, and brings them together."""

    def __init__(self, store: AutofixStore, chats: Chats, builds: BuildTrigger, bus: Bus) -> None:
        self._store = store
        self._chats = chats
        self._builds = builds
        self._bus = bus
        self.status = AutofixStatus()
        self._asked: dict[int, set[str]] = {}
        """The builds that chats work on."""
        self._changing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._unsubscribe: Callable[[], None] | None = None

    async def start(self) -> None:
        """Take up what was kept, and listen."""
        self.status = await asyncio.to_thread(self._store.load)
        self._unsubscribe = self._bus.subscribe(self._heard)

    async def stop(self) -> None:
        """Begin nothing more."""
        if self._unsubscribe:
            self._unsubscribe()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def switch(self, on: bool | None) -> AutofixStatus:
        """On or off over all; None: the other way."""
        return await self._change(
            lambda status: structs.replace(status, on=not status.on if on is None else on)
        )

    async def switch_build(
        self, build: str, on: bool | None, chat_id: int | None, tries: int | None
    ) -> AutofixStatus:
        """On or off for one build (None: the other way), in which chat, and how often in a row.

        What is None beside stays. The tries begin anew. Raises ``NotFound`` for a build or a
        chat that is not there, and ``BadRequest`` for a build that has no chat.
        """
        await self._builds.status(build)
        if chat_id:
            self._chats.summary(chat_id)

        def changed(status: AutofixStatus) -> AutofixStatus:
            fix = status.of(build)
            fix = structs.replace(
                fix,
                on=not fix.on if on is None else on,
                chat_id=chat_id or fix.chat_id,
                tries=tries or fix.tries,
                tried=0,
            )
            if fix.on and not fix.chat_id:
                raise BadRequest("A build is fixed in a chat: give its chatId")
            return status.having(fix)

        return await self._change(changed)

    async def _change(self, changed: Callable[[AutofixStatus], AutofixStatus]) -> AutofixStatus:
        async with self._changing:
            status = changed(self.status)
            if status != self.status:
                await asyncio.to_thread(self._store.save, status)
                self.status = status
                self._bus.publish(AutofixUpdate(status))
            return status

    def _heard(self, event: Event) -> None:
        match event:
            case BuildUpdate(build) if build.ended:
                self._begin(self._built(build))
            case ChatUpdate(chat=chat, reason="turn.ended") if chat.id in self._asked:
                if chat.at_rest:
                    for name in sorted(self._asked.pop(chat.id)):
                        if chat.outcome == "completed":
                            self._begin(self._rebuild(name))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _built(self, build: BuildStatus) -> None:
        """A build ended: ask the agent, or begin to count anew."""
        try:
            fix = self.status.of(build.name)
            if build.state == "succeeded" and fix.tried:
                await self._tried(fix, 0)
            elif build.failing and self.status.on and fix.on:
                await self._ask(build, fix)
        except AgentdError as error:
            log.warning("the build %s is not fixed: %s", build.name, error.message)

    async def _ask(self, build: BuildStatus, fix: BuildFix) -> None:
        if fix.tried >= fix.tries:
            log.warning("the build %s is not fixed after %d tries", build.name, fix.tried)
            return
        output = (
            ""
            if build.errors
            else (await self._builds.output(build.name)).decode("utf-8", "replace")
        )
        await self._tried(fix, fix.tried + 1)
        self._asked.setdefault(fix.chat_id, set()).add(build.name)
        text = prompt_for(build, fix.tried + 1, fix.tries, output)
        await self._chats.append(fix.chat_id, text, "", BY)

    async def _tried(self, fix: BuildFix, tried: int) -> None:
        def counted(status: AutofixStatus) -> AutofixStatus:
            return status.having(structs.replace(status.of(fix.build), tried=tried))

        await self._change(counted)

    async def _rebuild(self, build: str) -> None:
        try:
            if self.status.on and self.status.of(build).on:
                await self._builds.trigger(build, BY)
        except AgentdError as error:
            log.warning("the build %s is not triggered again: %s", build, error.message)
