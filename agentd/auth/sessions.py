"""The login sessions of users: signing in, checking, expiry and signing out.

A session is on disk before its token is sent, so a crash loses none. A user who is removed, or
whose role or password changes, is signed out from the next request on. Passwords are verified in
few threads, and networks take turns, so that a guesser delays nobody else for long.
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

from agentd.auth import login_codes, password
from agentd.auth.login_codes import LoginCodes
from agentd.auth.roles import (
    UNKNOWN_ORIGIN,
    USE_INTERVAL,
    LoginOrigin,
    LoginSession,
    User,
    UserDirectory,
    begin_session,
    hash_token,
)
from agentd.auth.sign_in_links import is_link_code
from agentd.core.clock import Clock, Timestamp, format_iso, parse_iso
from agentd.core.errors import AgentdError, Forbidden, LimitReached, NotFound, Unauthorized
from agentd.http.access import Caller

WRONG_CREDENTIALS = "Wrong name or password"

WRONG_CODE = "This code is wrong, was used, or is too old"

MAX_PARALLEL_HASHES = 2
"""Passwords that are verified at the same time."""

MAX_WAITING, MAX_WAITING_PER_NETWORK = 1024, 128
"""Logins that may wait for their turn, in total and from one network; more are refused."""

MAX_SESSIONS_PER_USER = 200
"""Sessions of one user; above that the least recently used one ends."""

SWEEP_SECONDS = 0.5
"""Seconds between two checks for expired sessions."""

_log = logging.getLogger("agentd.access")


class SessionStore(Protocol):
    """Stores sessions. Both methods block, and raise when they fail."""

    def load(self) -> Sequence[LoginSession]:
        """Return the stored sessions."""
        ...

    def save(self, sessions: Sequence[LoginSession]) -> None:
        """Store these sessions instead; they are on disk when it returns."""
        ...


class UserSource(Protocol):
    """The users of the hand-edited file."""

    @property
    def current(self) -> Iterable[User]:
        """The users by the last valid version of the file."""
        ...

    @property
    def problems(self) -> Sequence[object]:
        """Why the file as it is now is not valid."""
        ...

    async def refresh(self) -> None:
        """Read the file."""
        ...

    async def ensure_current(self) -> None:
        """Read the file if it has changed."""
        ...


class NewSession(NamedTuple):
    """A successful login; ``token`` is sent only once."""

    token: str
    caller: Caller
    expires_at: Timestamp


class _CachedSession:
    """A session in memory, with the values that each request needs."""

    __slots__ = ("expires_at", "session", "update_after")

    def __init__(self, session: LoginSession) -> None:
        self.session = session
        self.expires_at = session.expires_at
        self.update_after = format_iso(parse_iso(session.used) + USE_INTERVAL)


async def _load_sessions(
    store: SessionStore, disk: ThreadPoolExecutor
) -> Sequence[LoginSession] | None:
    """Return the stored sessions; None if they cannot be read."""
    try:
        return await asyncio.get_running_loop().run_in_executor(disk, store.load)
    except AgentdError as error:
        _log.error("the logins cannot be read, so everybody must sign in again: %s", error.message)
        return None


class SessionManager:
    """Signs users in and out, and finds the caller of a session token.

    ``by_code`` is the user that one-time codes sign in; ``redeem_link`` uses up the code of a
    sign-in link and returns whether it was one; it blocks. ``on_end`` is called with the ids of
    sessions that have ended, so that their live connections can be closed; some may be known
    still (``is_known``). ``get_settled`` returns the time of a ``SettledClock``.
    """

    def __init__(
        self,
        store: SessionStore,
        users: UserSource,
        clock: Clock,
        get_settled: Callable[[], Timestamp],
        administrator: User | None = None,
        on_end: Callable[[frozenset[str]], None] = lambda _: None,
        by_code: User | None = None,
        redeem_link: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._store = store
        self._users = users
        self._clock = clock
        self._get_settled = get_settled
        self._administrator = administrator
        self._on_end = on_end
        self._by_code = by_code
        self._redeem_link = redeem_link
        self._codes = LoginCodes(clock.monotonic)
        self.directory = UserDirectory((), administrator, by_code)
        self._has_all_sessions = False
        self._sessions: dict[str, _CachedSession] = {}
        self._lapsed: frozenset[str] = frozenset()
        """Ids of sessions that are over by the clock alone."""
        self._version = self._saved = 0
        self._save_problem = ""
        self._saving = asyncio.Lock()
        self._passwords = _PasswordVerifier()
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="sessions")
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load the users and the sessions."""
        sessions = await _load_sessions(self._store, self._disk)
        self._has_all_sessions = sessions is not None
        self._sessions = {one.sha256: _CachedSession(one) for one in sessions or ()}
        await self._users.refresh()
        self.apply_users()
        self._sweeper = asyncio.create_task(self._sweep())

    async def stop(self) -> None:
        """Save the last uses and end the threads."""
        if self._sweeper:
            self._sweeper.cancel()
        await self._save_if_possible()
        for threads in (self._passwords.threads, self._disk):
            await asyncio.to_thread(threads.shutdown)

    def apply_users(self) -> None:
        """Take over the users of the file; sign out those who were removed or changed.

        An invalid file ends no session: its last valid version stays in effect.
        """
        self.directory = UserDirectory(self._users.current, self._administrator, self._by_code)
        if not self._users.problems:
            known = [each.session for each in self._sessions.values()]
            self._drop(one for one in known if self.directory.get_caller(one) is None)

    @property
    def is_complete(self) -> bool:
        """False where logins may be missing: their file, or the users', could not be read."""
        return self._has_all_sessions and not self._users.problems

    @property
    def users(self) -> tuple[User, ...]:
        """The users who may sign in."""
        return tuple(self.directory)

    async def ensure_current(self) -> None:
        """Reload the users if their file has changed; costs one ``stat`` otherwise.

        To be awaited before each use of a login.
        """
        await self._users.ensure_current()

    def get_caller(self, session: str) -> Caller | None:
        """Return the user of a session token, or ``None`` if it is not valid."""
        known = self._sessions.get(hash_token(session))
        now = self._clock.now()
        if known is None or known.expires_at <= now:
            return None
        caller = self.directory.get_caller(known.session)
        if caller and now >= known.update_after:
            used = structs.replace(known.session, used=now)
            self._sessions[used.sha256] = _CachedSession(used)
            self._version += 1
        return caller

    def find_caller(self, session_id: str) -> Caller | None:
        """Return the user of the session with this id; None once it has ended."""
        now = self._clock.now()
        for known in self._sessions.values():
            if known.session.id == session_id and known.expires_at > now:
                return self.directory.get_caller(known.session)
        return None

    def is_known(self, session_id: str) -> bool:
        """Return whether this session is kept: it may be over by the clock, which may be wrong."""
        return any(known.session.id == session_id for known in self._sessions.values())

    def get_expiry(self, caller: Caller) -> Timestamp:
        """Return when the login of a caller ends; ``NotFound`` for a caller without one."""
        for known in self._sessions.values():
            if known.session.id == caller.session_id:
                return known.expires_at
        raise NotFound("There is no login: the request was made with a key")

    async def sign_in(
        self, name: str, entered: str, network: str, origin: LoginOrigin = UNKNOWN_ORIGIN
    ) -> NewSession:
        """Return a new session for a user name and the ``entered`` password.

        ``Unauthorized`` for a wrong name or password, which take equally long, so that names
        cannot be probed; ``LimitReached`` when too many sign in at once.
        """
        await self.ensure_current()
        user = self.directory.get(name)
        matches = await self._passwords.verify(entered, user, self.directory, network)
        if user is None or not matches or self.directory.get(name) != user:
            raise Unauthorized(WRONG_CREDENTIALS)
        return await self._begin(user, network, origin)

    def issue_code(self) -> tuple[str, Timestamp]:
        """Return a one-time code for signing in, and when it expires."""
        code = self._codes.issue_code()
        return code, format_iso(
            parse_iso(self._clock.now()) + timedelta(seconds=login_codes.CODE_SECONDS)
        )

    async def sign_in_with_code(
        self, code: str, network: str, origin: LoginOrigin = UNKNOWN_ORIGIN
    ) -> NewSession:
        """Return a new session of the administrator for a one-time code, typed or of a link.

        ``Unauthorized`` for a wrong code, ``LimitReached`` after too many of them; wrong codes of
        links, which cannot be guessed, do not count.
        """
        if is_link_code(code):
            loop = asyncio.get_running_loop()
            right = await loop.run_in_executor(self._disk, self._redeem_link, code)
        else:
            right = self._codes.redeem(code, network)
        if not right or self._by_code is None:
            raise Unauthorized(WRONG_CODE)
        return await self._begin(self._by_code, network, origin, by_code=True)

    async def _begin(
        self, user: User, network: str, origin: LoginOrigin, *, by_code: bool = False
    ) -> NewSession:
        token, session = begin_session(user, self._clock.now(), origin, by_code=by_code)
        caller = self.directory.get_caller(session)
        assert caller
        self._sessions[session.sha256] = _CachedSession(session)
        self._version += 1
        self._drop(self._find_excess(user.name))
        try:
            await self._save()
        except AgentdError:
            self._drop([session])
            raise
        _log.info("%s signed in from %s", caller.identity, network)
        return NewSession(token, caller, session.expires_at)

    def log_failed_sign_in(self, name: str, network: str) -> None:
        """Log a failed login; empty ``name``: with a one-time code.

        An unknown name is not logged: it may be a password that was typed into the wrong field.
        """
        of_user = f" of {name}" if self.directory.get(name) else ""
        _log.warning("failed login%s from %s", of_user, network)

    async def sign_out(self, caller: Caller, *, everywhere: bool = False) -> None:
        """End the login of a caller, or all logins of the user; ``NotFound`` without one."""
        self.get_expiry(caller)
        own = self._find_sessions(caller.name)
        self._drop(one for one in own if everywhere or one.id == caller.session_id)
        await self._save()

    def list_sessions(self, name: str) -> list[LoginSession]:
        """Return the valid sessions of a user, the last used first."""
        now, find = self._clock.now(), self.directory.get_caller
        own = [one for one in self._find_sessions(name) if one.expires_at > now and find(one)]
        return sorted(own, key=lambda one: (one.used, one.created), reverse=True)

    async def end_session(self, name: str, session_id: str) -> None:
        """End one session of a user; ``NotFound`` when the user has none with this id."""
        ended = [one for one in self.list_sessions(name) if one.id == session_id]
        if not ended:
            raise NotFound("There is no such login; it may have ended already")
        self._drop(ended)
        await self._save()

    async def sign_out_user(self, name: str) -> None:
        """End all sessions of a user, of which there may be none."""
        self._drop(self._find_sessions(name))
        await self._save()

    async def verify_password(self, caller: Caller, entered: str, network: str) -> None:
        """Raise ``Forbidden`` unless this is the caller's password."""
        user = self.directory.get(caller.name)
        if not await self._passwords.verify(entered, user, self.directory, network):
            raise Forbidden("The current password is wrong", "Nothing was changed.")

    def _find_sessions(self, name: str) -> list[LoginSession]:
        return [one.session for one in self._sessions.values() if one.session.user == name]

    def _find_excess(self, name: str) -> list[LoginSession]:
        return sorted(self._find_sessions(name), key=lambda one: one.used)[:-MAX_SESSIONS_PER_USER]

    def _drop(self, sessions: Iterable[LoginSession]) -> None:
        """Forget these sessions and report their end."""
        gone = [one for one in sessions if self._sessions.pop(one.sha256, None)]
        if gone:
            self._version += 1
            self._on_end(frozenset(one.id for one in gone))

    async def _sweep(self) -> None:
        """Forget what is over by the settled time, close what is by the clock; save last uses."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now, settled = self._clock.now(), self._get_settled()
            over = [one for one in self._sessions.values() if one.expires_at <= now]
            self._drop([one.session for one in over if one.expires_at <= settled])
            lapsed = frozenset(one.session.id for one in over if one.expires_at > settled)
            if newly := lapsed - self._lapsed:
                self._on_end(newly)
            self._lapsed = lapsed
            await self._save_if_possible()

    async def _save_if_possible(self) -> None:
        try:
            await self._save()
        except AgentdError as error:
            if error.message != self._save_problem:  # it is retried, and logged once
                _log.warning("the logins could not be saved: %s", error.message)
            self._save_problem = error.message
        else:
            self._save_problem = ""

    async def _save(self) -> None:
        """Return once the sessions in memory are on disk; concurrent calls share one write."""
        needed = self._version
        async with self._saving:
            if self._saved < needed:
                version, known = self._version, list(self._sessions.values())
                sessions = tuple(one.session for one in known)
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(self._disk, self._store.save, sessions)
                self._saved = version


class _PasswordVerifier:
    """Verifies passwords in few threads; networks take turns."""

    def __init__(self) -> None:
        self._slots = FairSemaphore(MAX_PARALLEL_HASHES)
        self.threads = ThreadPoolExecutor(MAX_PARALLEL_HASHES, thread_name_prefix="passwords")

    async def verify(
        self, entered: str, user: User | None, users: Iterable[User], network: str
    ) -> bool:
        """Return whether it is the user's password; without a user, False after as long."""
        hashed = (
            user.password
            if user
            else password.make_decoy_hash(next((one.password for one in users), None))
        )
        async with self._slots.acquire(network):
            loop = asyncio.get_running_loop()
            matches = await loop.run_in_executor(
                self.threads, password.verify_password, entered, hashed
            )
        return matches and user is not None


class FairSemaphore:
    """A semaphore of ``free`` slots; waiting networks take turns."""

    def __init__(self, free: int) -> None:
        self._free = free
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def acquire(self, network: str) -> AsyncIterator[None]:
        """Wait for a slot and hold it for the block; ``LimitReached`` when too many wait."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(network)
        try:
            yield
        finally:
            self._release()

    async def _wait(self, network: str) -> None:
        queue = self._waiting.get(network, ())
        total = sum(map(len, self._waiting.values()))
        if len(queue) >= MAX_WAITING_PER_NETWORK or total >= MAX_WAITING:
            raise LimitReached("Too many logins at the same time", 1)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(network, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the slot was granted just before
                self._release()
            raise

    def _release(self) -> None:
        """Pass the slot to the network that has waited longest since its last one."""
        while self._waiting:
            network, queue = self._waiting.popitem(last=False)
            turn = queue.popleft()
            if queue:
                self._waiting[network] = queue
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
