"""Notifies subscribed browsers of questions and of finished work.

A person who looks at a chat in an open page is not notified of it: such a page marks the chat as
seen (``PUT /api/me``) at once, and each notification waits a moment for that.

A notification is best effort: one that is being sent when the daemon stops is not sent again, for
the chat shows what it says. A subscription ends with its login, and when its service says so.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from agentd.chats.events import (
    ApprovalUpdate,
    ChatDeletedUpdate,
    ChatStateEvent,
    ChatUpdate,
    MessageUpdate,
)
from agentd.chats.state import ChatSummary
from agentd.core.clock import Clock, parse_iso
from agentd.core.errors import AgentdError, BadRequest, LimitReached, Unavailable
from agentd.core.events import Event, EventBus
from agentd.core.tasks import BackgroundTasks
from agentd.http.access import Caller, has_role
from agentd.llm.upstream.protocol import Timeouts, Upstream, UpstreamRequest
from agentd.llm.upstream.public_addresses import may_be_public
from agentd.llm.upstream.request import parse_origin
from agentd.system.installed import get_install_command
from agentd.ui.preference_events import MeUpdate
from agentd.ui.push import encryption
from agentd.ui.push.model import (
    MAX_SUBSCRIPTIONS,
    PushDelivery,
    PushSubscription,
    build_question_delivery,
    build_turn_delivery,
    check_browser_keys,
    has_finished,
)
from agentd.ui.push.store import PushJson

log = logging.getLogger(__name__)

RETRY_DELAYS = (2.0, 15.0, 60.0)
"""Seconds before a delivery that failed for a passing reason is tried again."""
GRACE_SECONDS = 4.0
"""Seconds for which a notification waits for a page that shows what it tells."""
MAX_PARALLEL, MAX_PENDING = 4, 1000
"""Deliveries at the same time, and those that may wait; more are left out."""
_TIMEOUTS = Timeouts(connect=10, head=20, idle=10, total=40)
_GONE = (404, 410)
_MAX_ANSWER = 64 * 1024


class PushStore(Protocol):
    """Stores the key and the subscriptions (``ui.push.store.PushFile``). Both methods block."""

    def load(self) -> PushJson:
        """Return the stored key and subscriptions."""
        ...

    def save(self, content: PushJson) -> None:
        """Store this instead; durable when it returns."""
        ...


class LoginDirectory(Protocol):
    """The logins (``auth.sessions.SessionManager``)."""

    @property
    def is_complete(self) -> bool:
        """False where logins may be missing: their file, or the users', could not be read."""
        ...

    def find_caller(self, session_id: str) -> Caller | None:
        """Return the user of this login; None once it has ended."""
        ...

    def is_known(self, session_id: str) -> bool:
        """Return whether this login is kept: it may be over only by a clock that is wrong."""
        ...


@dataclass(eq=False)
class WaitingDelivery:
    """A delivery in its grace period."""

    delivery: PushDelivery
    seen_by: set[str] = field(default_factory=set)
    """The users who have seen meanwhile what it tells."""
    is_settled: bool = False
    """True once nobody needs it any more."""


async def wait_for_grace() -> None:
    """Wait for the grace period of a notification."""
    await asyncio.sleep(GRACE_SECONDS)


class PushService:
    """The subscriptions, and what is sent to them."""

    def __init__(
        self,
        store: PushStore,
        logins: LoginDirectory,
        get_summary: Callable[[int], ChatSummary],
        clock: Clock,
        upstream: Upstream,
    ) -> None:
        self._store = store
        self._logins = logins
        self._get_summary = get_summary
        self._clock = clock
        self._upstream = upstream
        self._content = PushJson()
        self._saving = asyncio.Lock()
        self._slots = asyncio.Semaphore(MAX_PARALLEL)
        self._tasks = BackgroundTasks()
        self._replies: dict[int, str] = {}
        """The last message of the agent in each chat that works, as far as it came meanwhile."""
        self._waiting: list[WaitingDelivery] = []
        self._unsubscribe: Callable[[], None] = lambda: None

    async def start(self, bus: EventBus) -> None:
        """Read the file and follow the events. A damaged file is logged, and stays until used."""
        try:
            self._content = await asyncio.to_thread(self._store.load)
        except AgentdError as error:
            log.error("push notifications cannot be sent: %s", error.message)
        self._unsubscribe = bus.subscribe_to(
            (ApprovalUpdate, MessageUpdate, ChatStateEvent, MeUpdate), self._on_event
        )
        if self._logins.is_complete:
            known = self._content.subscriptions
            self.end_logins([one.session for one in known if not self._find_caller(one)])

    async def stop(self) -> None:
        """Give up what is being sent."""
        self._unsubscribe()
        await self._tasks.cancel()

    async def find_problem(self) -> str:
        """Explain why no notification can be sent; empty when they can."""
        if await asyncio.to_thread(encryption.is_installed):
            return ""
        return f"Install the extra on agentd's machine: {get_install_command('push')}"

    async def get_public_key(self) -> str:
        """Return the key that browsers subscribe with; made at the first call.

        ``Unavailable`` without the extra, and where the file cannot be written.
        """
        if problem := await self.find_problem():
            raise Unavailable("This agentd cannot send push notifications", problem)
        if not self._content.key:
            key = await asyncio.to_thread(encryption.generate_private_key)
            await self._change(lambda now: now if now.key else replace(now, key=key))
        return await asyncio.to_thread(encryption.derive_public_key, self._content.key)

    def is_subscribed(self, caller: Caller) -> bool:
        """Return whether this login has a subscription."""
        return any(one.session == caller.session_id for one in self._content.subscriptions)

    async def subscribe(self, caller: Caller, endpoint: str, p256dh: str, auth: str) -> None:
        """Notify this browser instead of the one the login had before; durable at return.

        ``BadRequest`` for an address or keys that no push service gives.
        """
        await self.get_public_key()
        _check_endpoint(endpoint)
        try:
            check_browser_keys(p256dh, auth)
        except ValueError as error:
            raise BadRequest(f"The keys of the subscription are not valid: {error}") from error
        await asyncio.to_thread(encryption.check_point, p256dh)
        made = PushSubscription(
            caller.session_id, caller.name, endpoint, p256dh, auth, self._clock.now()
        )

        def add(now: PushJson) -> PushJson:
            kept = tuple(
                one
                for one in now.subscriptions
                if one.session != made.session and one.endpoint != endpoint
            )
            if len(kept) >= MAX_SUBSCRIPTIONS:
                raise LimitReached("Too many browsers are notified already", 3600)
            return replace(now, subscriptions=(*kept, made))

        await self._change(add)
        if not self._logins.find_caller(caller.session_id):  # it ended meanwhile
            await self._remove(lambda one: one.session == caller.session_id)

    async def unsubscribe(self, caller: Caller) -> None:
        """Notify this login's browser no more; durable at return."""
        await self._remove(lambda one: one.session == caller.session_id)

    def end_logins(self, session_ids: Collection[str]) -> None:
        """Forget the subscriptions of logins that have ended."""
        gone = frozenset(one for one in session_ids if not self._logins.is_known(one))
        if any(one.session in gone for one in self._content.subscriptions):
            self._tasks.start(self._forget(lambda one: one.session in gone))

    def _find_caller(self, subscription: PushSubscription) -> Caller | None:
        return self._logins.find_caller(subscription.session)

    async def _forget(self, goes: Callable[[PushSubscription], bool]) -> None:
        try:
            await self._remove(goes)
        except AgentdError as error:  # it is not used any more: each delivery looks at its login
            log.warning("ended subscriptions stay in the file: %s", error.message)

    async def _remove(self, goes: Callable[[PushSubscription], bool]) -> None:
        def keep(now: PushJson) -> PushJson:
            return replace(now, subscriptions=tuple(x for x in now.subscriptions if not goes(x)))

        await self._change(keep)

    async def _change(self, edit: Callable[[PushJson], PushJson]) -> None:
        async with self._saving:
            changed = edit(self._content)
            if changed != self._content:
                await asyncio.to_thread(self._store.save, changed)
                self._content = changed

    def _on_event(self, event: Event) -> None:
        if not self._content.subscriptions:
            return
        match event:
            case ApprovalUpdate() if event.approval.state == "open":
                chat = self._get_summary(event.chat_id)
                self._send(build_question_delivery(chat, event.approval, self._clock.now()))
            case ApprovalUpdate():
                self._settle("question", event.chat_id, event.approval.id)
            case MessageUpdate() if event.message.role in ("assistant", "error"):
                self._replies[event.chat_id] = event.message.text[:4000]
            case ChatUpdate(reason="turn.ended"):
                reply = self._replies.pop(event.chat.id, "")
                if has_finished(event.chat):
                    self._send(build_turn_delivery(event.chat, reply))
            case ChatDeletedUpdate():
                self._replies.pop(event.chat.id, None)
            case MeUpdate():
                for waiting in self._waiting:
                    if waiting.delivery.notice.chat_id in event.change.seen:
                        waiting.seen_by.add(event.user)

    def _settle(self, kind: str, chat_id: int, number: int) -> None:
        for waiting in self._waiting:
            notice = waiting.delivery.notice
            if (notice.kind, notice.chat_id, notice.id) == (kind, chat_id, number):
                waiting.is_settled = True

    def _send(self, delivery: PushDelivery) -> None:
        waiting = WaitingDelivery(delivery)
        self._start(self._send_later(waiting))

    async def _send_later(self, waiting: WaitingDelivery) -> None:
        """Notify those who have not seen it after the grace period."""
        self._waiting.append(waiting)
        await wait_for_grace()
        self._waiting.remove(waiting)
        if waiting.is_settled:
            return
        for subscription in self._content.subscriptions:
            if subscription.user not in waiting.seen_by:
                self._start(self._deliver(subscription, waiting.delivery))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        if len(self._tasks) >= MAX_PENDING:
            work.close()
            log.warning("too many notifications wait; one is left out")
        else:
            self._tasks.start(work)

    async def _deliver(self, subscription: PushSubscription, delivery: PushDelivery) -> None:
        for delay in (*RETRY_DELAYS, None):
            caller = self._find_caller(subscription)
            if caller is None or subscription not in self._content.subscriptions:
                return
            why, is_passing = await self._try(subscription, delivery, caller)
            if not why:
                return
            if delay is None or not is_passing:
                host = urlsplit(subscription.endpoint).hostname
                log.warning("a notification was not delivered by %s: %s", host, why)
                return
            await asyncio.sleep(delay)

    async def _try(
        self, subscription: PushSubscription, delivery: PushDelivery, caller: Caller
    ) -> tuple[str, bool]:
        """Return the reason of the failure, empty without one, and whether it may work later."""
        async with self._slots:
            try:
                request = await asyncio.to_thread(
                    self._build_request, subscription, delivery, has_role(caller.role, "manager")
                )
                async with self._upstream.send(request) as response:
                    status = response.status
                    await response.read(_MAX_ANSWER)
            except AgentdError as error:
                return error.message, True
        if status in _GONE:
            await self._forget(lambda one: one.endpoint == subscription.endpoint)
            return "", False
        failed = "" if 200 <= status < 300 else f"it answers with status {status}"
        return failed, status == 429 or status >= 500

    def _build_request(
        self, subscription: PushSubscription, delivery: PushDelivery, may_answer: bool
    ) -> UpstreamRequest:
        """Encrypt and sign a delivery. Blocking."""
        notice = delivery.notice
        shown = replace(notice, answerable=notice.answerable and may_answer)
        payload = msgspec.json.encode(shown)
        now = parse_iso(self._clock.now()).timestamp()
        return UpstreamRequest(
            "POST",
            subscription.endpoint,
            {
                "Authorization": encryption.sign_request(
                    subscription.endpoint, self._content.key, now
                ),
                "Content-Encoding": "aes128gcm",
                "Content-Type": "application/octet-stream",
                "TTL": str(delivery.ttl),
                "Urgency": delivery.urgency,
                "Topic": delivery.topic,
            },
            encryption.encrypt_payload(payload, subscription.p256dh, subscription.auth),
            _TIMEOUTS,
        )


def _check_endpoint(endpoint: str) -> None:
    """Raise ``BadRequest`` unless it is the https address of a public host.

    What its name resolves to is checked when it is called.
    """
    try:
        origin = parse_origin(endpoint)
    except BadRequest as error:
        raise BadRequest("The subscription's endpoint is not a valid address") from error
    if origin.scheme != "https" or not may_be_public(origin.host):
        raise BadRequest(
            "The subscription's endpoint must be an https address of a public host",
            "It is the address that the browser's own push service gave to it.",
        )
