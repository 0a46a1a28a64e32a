"""People who sign in: what each role may do, and how long a session lasts.

A session is 256 random bits, of which only the SHA-256 is kept. It ends 30 days after its login,
or after 7 days without a request; at once when its owner's role or password is another, or when
he signs out. A session that began with a one-time code is the administrator's, and lasts 90 days;
it ends at once when the management key is another, or the administrator's password.
"""

import hmac
import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from hashlib import sha256
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from agentd import ids
from agentd.access.gate import Caller, Role, Surface
from agentd.access.key import Digest
from agentd.access.password import Hashed
from agentd.clock import Timestamp, iso, parse_iso

LONGEST = timedelta(days=30)
"""A session ends so long after its login, however much it is used."""

IDLE = timedelta(days=7)
"""A session ends after so long without a request."""

LONGEST_BY_CODE = timedelta(days=90)
"""As long lasts one that began with a one-time code (the proxy specification, section 8)."""

NOTE_EVERY = timedelta(hours=1)
"""For so long one note of a session's last use will do."""

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""The methods that change nothing."""

NAMELESS = "administrator"
"""What the administrator is called where none has a password."""

RANKS: tuple[Role, ...] = ("nobody", "viewer", "manager", "administrator")
"""Each may what those before it may."""

UserRole: TypeAlias = Literal["viewer", "manager", "administrator"]

_NAME = "^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"
UserName: TypeAlias = Annotated[str, Meta(pattern=_NAME)]


def is_name(text: str) -> bool:
    """Whether a person may be called so."""
    return bool(re.fullmatch(_NAME, text))


def needed(surface: Surface, method: str) -> Role:
    """The least role for a method on a surface, where its route names no other.

    A viewer reads, and what a client of the hub says only serves its listening.
    """
    if surface in (Surface.PUBLIC, Surface.OPEN, Surface.MODELS):
        return "nobody"
    if surface is Surface.MANAGE:
        return "administrator"
    return "viewer" if surface is Surface.LIVE or method in SAFE else "manager"


def reaches(role: Role, least: Role) -> bool:
    """Whether a role may what ``least`` may."""
    return RANKS.index(role) >= RANKS.index(least)


class User(Struct, frozen=True):
    """One person who may sign in."""

    name: UserName
    role: UserRole
    password: Hashed

    @property
    def proof(self) -> str:
        """Differs when the role or the password does: a session is good for one proof only."""
        return sha256(f"{self.name}\n{self.role}\n{self.password}".encode()).hexdigest()


class Session(Struct, frozen=True, omit_defaults=True):
    """One login, as it is kept."""

    sha256: Digest
    """Of the token."""
    user: UserName
    proof: Digest
    created: Timestamp
    used: Timestamp
    """When it was last used, to the hour."""
    by_code: bool = False
    """Whether it began with a one-time code instead of a password."""

    @property
    def id(self) -> str:
        """Names it, and is no secret."""
        return self.sha256[:16]

    @property
    def ends(self) -> Timestamp:
        """When it ends unless it is used before."""
        if self.by_code:
            return iso(parse_iso(self.created) + LONGEST_BY_CODE)
        return iso(min(parse_iso(self.created) + LONGEST, parse_iso(self.used) + IDLE))


def begin(user: User, at: Timestamp, *, by_code: bool = False) -> tuple[str, Session]:
    """A new session: its token, which is kept nowhere, and what is kept."""
    token = ids.new_session()
    return token, Session(digest(token), user.name, user.proof, at, at, by_code)


def signed_in_by_code(management: str, administrator: User | None) -> User | None:
    """As whom a one-time code signs in: the administrator, be there one with a password or not.

    ``management`` is the SHA-256 of the management key; without one there are no codes.
    """
    if not management:
        return None
    name, kept = (administrator.name, administrator.password) if administrator else (NAMELESS, "")
    return User(name, "administrator", f"{management} {kept}")


def digest(token: str) -> str:
    """What is kept of a token."""
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def xsrf(token: str) -> str:
    """What a page of ours adds to what it sends, and a page of another cannot know."""
    return hmac.new(token.encode("utf-8", "surrogatepass"), b"agentd xsrf", "sha256").hexdigest()


def proves(token: str, sent: str | None) -> bool:
    """Whether a page of ours sent this beside the token."""
    return hmac.compare_digest(xsrf(token).encode(), (sent or "").encode("utf-8", "surrogatepass"))


class Directory:
    """The people who may sign in now; it does not change.

    ``administrator`` is the one of the environment: of the same name in the file nobody is.
    ``by_code`` is as whom one-time codes sign in.
    """

    def __init__(
        self,
        users: Iterable[User],
        administrator: User | None = None,
        by_code: User | None = None,
    ) -> None:
        self._by_code = by_code
        self._users = {user.name: user for user in users}
        if administrator:
            self._users[administrator.name] = administrator

    def __iter__(self) -> Iterator[User]:
        return iter(self._users.values())

    def get(self, name: str) -> User | None:
        """The one of that name."""
        return self._users.get(name)

    def caller(self, session: Session) -> Caller | None:
        """Whose session this is; ``None`` when he is gone or is another now."""
        user = self._by_code if session.by_code else self._users.get(session.user)
        if user is None or user.proof != session.proof:
            return None
        return Caller("user", user.name, user.role, session.id)
