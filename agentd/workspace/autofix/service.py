"""A build that fails is given to the agent, until it is green or that was tried often enough.

A prompt with the errors is appended to the build's chat; when the chat has come to rest after
it, the build is triggered again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

from msgspec import structs

from agentd.chats.events import ChatUpdate
from agentd.chats.model import AUTOFIX, Prompt
from agentd.chats.state import ChatSummary
from agentd.core.errors import AgentdError, BadRequest
from agentd.core.events import Event, EventBus
from agentd.core.tasks import BackgroundTasks
from agentd.workspace.autofix.events import AutofixUpdate
from agentd.workspace.autofix.rules import AutofixStatus, BuildFix, build_prompt
from agentd.workspace.builds.build import BuildStatus
from agentd.workspace.builds.events import BuildUpdate
from agentd.workspace.builds.output import KeptOutput

log = logging.getLogger(__name__)


class AutofixStore(Protocol):
    """The storage of the state (``workspace.job_store.AutofixFile``). Its methods block."""

    def load(self) -> AutofixStatus:
        """Load what was saved."""
        ...

    def save(self, status: AutofixStatus) -> None:
        """Save it. Raises ``Unavailable``."""
        ...


class ChatPrompts(Protocol):
    """The chats (``chats.service.ChatService``)."""

    def get_summary(self, chat_id: int) -> ChatSummary:
        """Return a chat's summary; raises ``NotFound``."""
        ...

    def append_prompt(self, chat_id: int, text: str, model: str, by: str) -> Awaitable[Prompt]:
        """Append a prompt to the queue."""
        ...


class BuildTrigger(Protocol):
    """The builds (``workspace.builds.service.BuildService``)."""

    async def get_status(self, name: str) -> BuildStatus:
        """Return a build's status; raises ``NotFound``."""
        ...

    def trigger(self, name: str, by: str) -> Awaitable[BuildStatus]:
        """Start one."""
        ...

    def read_output(self, name: str) -> Awaitable[KeptOutput]:
        """Return the output of the last run."""
        ...


class AutofixService:
    """Hears of builds and chats, and brings them together."""

    def __init__(
        self, store: AutofixStore, chats: ChatPrompts, builds: BuildTrigger, bus: EventBus
    ) -> None:
        self._store = store
        self._chats = chats
        self._builds = builds
        self._bus = bus
        self.status = AutofixStatus()
        self._asked: dict[int, set[str]] = {}
        """The builds that chats work on."""
        self._changing = asyncio.Lock()
        self._tasks = BackgroundTasks()
        self._unsubscribe: Callable[[], None] | None = None

    async def start(self) -> None:
        """Load the saved status, and subscribe to events."""
        self.status = await asyncio.to_thread(self._store.load)
        for fix in self.status.builds:
            if fix.tried and self._is_at_work(fix.chat_id):
                self._asked.setdefault(fix.chat_id, set()).add(fix.build)
        self._unsubscribe = self._bus.subscribe_to((BuildUpdate, ChatUpdate), self._on_event)

    def _is_at_work(self, chat_id: int) -> bool:
        """Return whether a chat has prompts to carry out, such as one of an earlier daemon's."""
        with suppress(AgentdError):  # it is deleted, or cannot be read
            chat = self._chats.get_summary(chat_id)
            return chat.working or chat.waiting > 0
        return False

    async def stop(self) -> None:
        """Stop; running tasks are awaited."""
        if self._unsubscribe:
            self._unsubscribe()
        await self._tasks.wait()

    async def switch(self, on: bool | None) -> AutofixStatus:
        """Switch autofix on or off for all builds; None toggles."""
        return await self._change(
            lambda status: structs.replace(status, on=not status.on if on is None else on)
        )

    async def switch_build(
        self, build: str, on: bool | None, chat_id: int | None, tries: int | None
    ) -> AutofixStatus:
        """Switch autofix for one build (None toggles), and set its chat and number of tries.

        None leaves a value unchanged. The tries are reset. Raises ``NotFound`` for a build or a
        chat that is not there, and ``BadRequest`` for a build that has no chat.
        """
        await self._builds.get_status(build)
        if chat_id:
            self._chats.get_summary(chat_id)

        def apply_change(status: AutofixStatus) -> AutofixStatus:
            fix = status.get(build)
            fix = structs.replace(
                fix,
                on=not fix.on if on is None else on,
                chat_id=chat_id or fix.chat_id,
                tries=tries or fix.tries,
                tried=0,
            )
            if fix.on and not fix.chat_id:
                raise BadRequest("A build is fixed in a chat: give its chatId")
            return status.with_build(fix)

        return await self._change(apply_change)

    async def _change(self, changed: Callable[[AutofixStatus], AutofixStatus]) -> AutofixStatus:
        async with self._changing:
            status = changed(self.status)
            if status != self.status:
                await asyncio.to_thread(self._store.save, status)
                self.status = status
                self._bus.publish(AutofixUpdate(status))
            return status

    def _on_event(self, event: Event) -> None:
        match event:
            case BuildUpdate(build) if build.ended:
                self._tasks.start(self._on_build_ended(build))
            case ChatUpdate(chat=chat, reason="turn.ended") if chat.id in self._asked:
                if chat.is_idle_at(chat.updated_at):
                    for name in sorted(self._asked.pop(chat.id)):
                        if chat.outcome == "completed":
                            self._tasks.start(self._rebuild(name))

    async def _on_build_ended(self, build: BuildStatus) -> None:
        """Ask the agent about a failed build; reset the count after a good one."""
        try:
            fix = self.status.get(build.name)
            if build.state == "succeeded" and fix.tried:
                await self._set_tried(fix, 0)
            elif build.failing and self.status.on and fix.on:
                await self._ask_agent(build, fix)
        except AgentdError as error:
            log.warning("the build %s is not fixed: %s", build.name, error.message)

    async def _ask_agent(self, build: BuildStatus, fix: BuildFix) -> None:
        if fix.tried >= fix.tries:
            log.warning("the build %s is not fixed after %d tries", build.name, fix.tried)
            return
        self._chats.get_summary(fix.chat_id)  # a try in a chat that was deleted would be none
        output = (
            ""
            if build.errors
            else (await self._builds.read_output(build.name)).data.decode("utf-8", "replace")
        )
        await self._set_tried(fix, fix.tried + 1)
        self._asked.setdefault(fix.chat_id, set()).add(build.name)
        text = build_prompt(build, fix.tried + 1, fix.tries, output)
        await self._chats.append_prompt(fix.chat_id, text, "", AUTOFIX)

    async def _set_tried(self, fix: BuildFix, tried: int) -> None:
        def set_count(status: AutofixStatus) -> AutofixStatus:
            return status.with_build(structs.replace(status.get(fix.build), tried=tried))

        await self._change(set_count)

    async def _rebuild(self, build: str) -> None:
        try:
            if self.status.on and self.status.get(build).on:
                await self._builds.trigger(build, AUTOFIX)
        except AgentdError as error:
            log.warning("the build %s is not triggered again: %s", build, error.message)
