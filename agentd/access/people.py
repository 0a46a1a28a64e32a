"""Who is signed in: logins begin, last, and end.

A session is on the disk before its token is given out, so a crash loses none. A person who is
removed, or whose role or password is another, is signed out from the next request on. Passwords
are compared in few threads, and the addresses that ask take turns: whoever guesses keeps nobody
else waiting for long.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import NamedTuple, Protocol

from msgspec import structs

from agentd.access import codes, password
from agentd.access.codes import Codes
from agentd.access.gate import Caller
from agentd.access.login import NOTE_EVERY, Directory, Session, User, begin, digest
from agentd.clock import Clock, Timestamp, iso, parse_iso
from agentd.errors import AgentdError, LimitReached, NotFound, Unauthorized

WRONG = "Wrong name or password"

WRONG_CODE = "This code is wrong, was used, or is too old"

PARALLEL = 2
"""Passwords that are compared at the same time."""

WAITING, WAITING_OF_ONE = 1024, 128
"""Logins that wait for their turn, from everywhere and of one network; more are refused."""

MOST_OF_ONE = 200
"""Sessions of one person; the one that was used least lately ends."""

SWEEP_SECONDS = 0.5
"""How often it is looked for sessions whose time is over."""

_log = logging.getLogger("agentd.access")


class SessionStore(Protocol):
    """Where sessions are kept. Both block and raise what they cannot do."""

    def load(self) -> Sequence[Session]:
        """All that were saved last."""
        ...

    def save(self, sessions: Sequence[Session]) -> None:
        """Keep these instead; durable when it returns."""
        ...


class Users(Protocol):
    """The people of the hand-edited file."""

    @property
    def current(self) -> Iterable[User]:
        """As the file last said without a mistake."""
        ...

    @property
    def mistakes(self) -> Sequence[object]:
        """Why the file as it is now is not taken."""
        ...

    async def refresh(self) -> None:
        """Take in what the file says now."""
        ...

    async def ensure_current(self) -> None:
        """Take in an edit that nobody has noticed yet."""
        ...


class SignedIn(NamedTuple):
    """A login that succeeded: ``token`` is told this once."""

    token: str
    caller: Caller
    ends: Timestamp


class _Known:
    """A session in memory; what each request asks of it is worked out before."""

    __slots__ = ("ends", "note_after", "session")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.ends = session.ends
        self.note_after = iso(parse_iso(session.used) + NOTE_EVERY)


class People:
    """Signs people in and out, and tells who is calling.

    ``by_code`` is as whom one-time codes sign in. ``ended`` is called with the ids of sessions
    that are over: their live connections must end.
    """

    def __init__(
        self,
        store: SessionStore,
        users: Users,
        clock: Clock,
        administrator: User | None = None,
        ended: Callable[[frozenset[str]], None] = lambda _: None,
        by_code: User | None = None,
    ) -> None:
        self._store = store
        self._users = users
        self._clock = clock
        self._administrator = administrator
        self._ended = ended
        self._by_code = by_code
        self._codes = Codes(clock.monotonic)
        self._directory = Directory((), administrator, by_code)
        self._sessions: dict[str, _Known] = {}
        self._version = self._saved = 0
        self._trouble = ""
        self._saving = asyncio.Lock()
        self._turns = Turns(PARALLEL)
        self._hashers = ThreadPoolExecutor(PARALLEL, thread_name_prefix="passwords")
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="sessions")
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Know the people and the sessions of before."""
        loop = asyncio.get_running_loop()
        try:
            sessions = await loop.run_in_executor(self._disk, self._store.load)
        except AgentdError as error:
            _log.error("everybody must sign in again: %s", error.message)
            sessions = ()
        self._sessions = {session.sha256: _Known(session) for session in sessions}
        await self._users.refresh()
        self.users_changed()
        self._sweeper = loop.create_task(self._sweep())

    async def stop(self) -> None:
        """Save the last uses and end the threads."""
        if self._sweeper:
            self._sweeper.cancel()
        await self._save_if_possible()
        for threads in (self._hashers, self._disk):
            await asyncio.to_thread(threads.shutdown)

    def users_changed(self) -> None:
        """The users are others now: sign out who is not what he was.

        A file with mistakes signs out nobody: what it said before stays in force.
        """
        self._directory = Directory(self._users.current, self._administrator, self._by_code)
        if not self._users.mistakes:
            known = [each.session for each in self._sessions.values()]
            self._drop(one for one in known if self._directory.caller(one) is None)

    @property
    def users(self) -> tuple[User, ...]:
        """Everybody who may sign in now."""
        return tuple(self._directory)

    async def fresh(self) -> None:
        """Called before a login is looked at. Costs one ``stat`` when nothing was edited."""
        await self._users.ensure_current()

    def caller(self, session: str) -> Caller | None:
        """Whose session token this is, or ``None`` when it is nobody's."""
        known = self._sessions.get(digest(session))
        now = self._clock.now()
        if known is None or known.ends <= now:
            return None
        caller = self._directory.caller(known.session)
        if caller and now >= known.note_after:
            kept = known.session
            used = structs.replace(kept, used=now)
            self._sessions[used.sha256] = _Known(used)
            self._version += 1
        return caller

    def ends(self, caller: Caller) -> Timestamp:
        """When the login of a caller ends unless it is used before; ``NotFound`` without one."""
        for known in self._sessions.values():
            if known.session.id == caller.session:
                return known.ends
        raise NotFound("There is no login: a key needs none")

    async def sign_in(self, name: str, word: str, network: str) -> SignedIn:
        """A new session for who knows the password ``word``, asked for from ``network``.

        ``Unauthorized`` for a wrong name or password, which take equally long to be found out;
        ``LimitReached`` when too many ask at once.
        """
        await self.fresh()
        user = self._directory.get(name)
        kept = user.password if user else self._decoy()
        async with self._turns.one(network):
            loop = asyncio.get_running_loop()
            right = await loop.run_in_executor(self._hashers, password.matches, word, kept)
        if user is None or not right or self._directory.get(name) != user:
            raise Unauthorized(WRONG)
        return await self._begun(user, network)

    def issue_code(self) -> tuple[str, Timestamp]:
        """A one-time code for a person to sign in with, and until when it is good."""
        code = self._codes.issue()
        return code, iso(parse_iso(self._clock.now()) + timedelta(seconds=codes.SECONDS))

    async def enter(self, code: str, network: str) -> SignedIn:
        """A new session of the administrator for a one-time code; ``Unauthorized`` for no code.

        ``LimitReached`` where too many wrong ones came from the network.
        """
        if not self._codes.redeem(code, network) or self._by_code is None:
            raise Unauthorized(WRONG_CODE)
        return await self._begun(self._by_code, network, by_code=True)

    async def _begun(self, user: User, network: str, *, by_code: bool = False) -> SignedIn:
        token, session = begin(user, self._clock.now(), by_code=by_code)
        caller = self._directory.caller(session)
        assert caller
        self._sessions[session.sha256] = _Known(session)
        self._version += 1
        self._drop(self._too_many(user.name))
        try:
            await self._save()
        except AgentdError:
            self._drop([session])
            raise
        _log.info("%s signed in from %s", caller.by, network)
        return SignedIn(token, caller, session.ends)

    def tell_failed(self, name: str, network: str) -> None:
        """Log a login that failed; a name that nobody has may be a password in the wrong place.

        With a one-time code there is no name.
        """
        whose = f" of {name}" if self._directory.get(name) else ""
        _log.warning("a login%s failed from %s", whose, network)

    async def sign_out(self, caller: Caller, *, everywhere: bool = False) -> None:
        """End the login of a caller, or all that he has; ``NotFound`` when he has none."""
        self.ends(caller)
        own = [one.session for one in self._sessions.values() if one.session.user == caller.name]
        self._drop(one for one in own if everywhere or one.id == caller.session)
        await self._save()

    def _decoy(self) -> str:
        return password.decoy(next((user.password for user in self._directory), None))

    def _too_many(self, name: str) -> list[Session]:
        own = [one.session for one in self._sessions.values() if one.session.user == name]
        return sorted(own, key=lambda one: one.used)[: max(len(own) - MOST_OF_ONE, 0)]

    def _drop(self, sessions: Iterable[Session]) -> None:
        """Forget these, and tell so."""
        gone = [one for one in sessions if self._sessions.pop(one.sha256, None)]
        if gone:
            self._version += 1
            self._ended(frozenset(one.id for one in gone))

    async def _sweep(self) -> None:
        """End what is over, and save what changed without anybody waiting for it."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now = self._clock.now()
            self._drop([one.session for one in self._sessions.values() if one.ends <= now])
            await self._save_if_possible()

    async def _save_if_possible(self) -> None:
        try:
            await self._save()
        except AgentdError as error:
            if error.message != self._trouble:  # it is tried again, and told once
                _log.warning("the logins could not be saved: %s", error.message)
            self._trouble = error.message
        else:
            self._trouble = ""

    async def _save(self) -> None:
        """Return once what is in memory now is on the disk; many who wait share one write."""
        wanted = self._version
        async with self._saving:
            if self._saved < wanted:
                version, known = self._version, list(self._sessions.values())
                sessions = tuple(one.session for one in known)
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(self._disk, self._store.save, sessions)
                self._saved = version


class Turns:
    """Lets ``free`` in at a time; who waits is let in network by network in turn."""

    def __init__(self, free: int) -> None:
        self._free = free
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def one(self, network: str) -> AsyncIterator[None]:
        """Wait for a turn and hold it for the block; ``LimitReached`` when too many wait."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(network)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, network: str) -> None:
        queue = self._waiting.get(network, ())
        if len(queue) >= WAITING_OF_ONE or sum(map(len, self._waiting.values())) >= WAITING:
            raise LimitReached("Too many people sign in at the same time", 1)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(network, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it came with the very cancellation
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """The turn goes to the network that had none for longest."""
        while self._waiting:
            network, queue = self._waiting.popitem(last=False)
            turn = queue.popleft()
            if queue:
                self._waiting[network] = queue
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
