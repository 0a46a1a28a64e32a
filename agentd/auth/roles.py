"""Users and their sessions: roles, and how long a session lasts.

A session token has 256 random bits, of which only the SHA-256 is stored. A session ends 30 days
after the login, or after 7 days without a request; at once when the user's role or password
changes, or on signing out. A session that began with a one-time code is the administrator's, and
lasts 90 days; it ends at once when the management key or the administrator's password changes.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from hashlib import sha256
from typing import Annotated, Literal, NamedTuple, TypeAlias

from msgspec import Meta, Struct

from agentd.auth.key import Digest
from agentd.auth.password import PasswordHash
from agentd.core import ids
from agentd.core.clock import Timestamp, format_iso, parse_iso, require_timestamps
from agentd.core.errors import Conflict
from agentd.http.access import Caller
from agentd.http.cookies import MAX_SESSION_AGE

IDLE_LIFETIME = timedelta(days=7)
"""A session ends after this long without a request."""

CODE_SESSION_LIFETIME = timedelta(days=90)
"""The lifetime of a session from a one-time code (the proxy specification, section 8)."""

USE_INTERVAL = timedelta(hours=1)
"""The least time between two updates of a session's last use."""


NAMELESS_ADMINISTRATOR = "administrator"
"""The administrator's name if none is configured.

A user of the file may have it, as an administrator: with a lesser role, that user would see and
end the logins by one-time codes.
"""


UserRole: TypeAlias = Literal["viewer", "manager", "administrator"]

_NAME = "^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"
UserName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=_NAME,
        extra={"form": "at most 64 letters, digits and . _ @ -, not beginning with a sign"},
    ),
]


def is_user_name(text: str) -> bool:
    """Return whether this is a valid user name."""
    return bool(re.fullmatch(_NAME, text))


_REFUSED_NAME = "user named {} must have the role administrator"
_CODES_USE_IT = "one-time codes sign in under that name"


def explain_refused_name(name: str) -> str:
    """Explain why a user of the file may not sign in under that name."""
    return f"a {_REFUSED_NAME.format(name)}: {_CODES_USE_IT}"


def check_role(name: str, role: UserRole) -> None:
    """Raise ``Conflict`` if a user of that name may not have the role."""
    if name == NAMELESS_ADMINISTRATOR and role != "administrator":
        raise Conflict(f"A {_REFUSED_NAME.format(name)}", f"{_CODES_USE_IT.capitalize()}.")


class User(Struct, frozen=True):
    """A person who may sign in."""

    name: UserName
    role: UserRole
    password: PasswordHash

    @property
    def proof(self) -> str:
        """A hash of name, role and password: a session is valid only while it stays the same."""
        return sha256(f"{self.name}\n{self.role}\n{self.password}".encode()).hexdigest()


class LoginOrigin(NamedTuple):
    """The device and address of a sign-in, shown to the same person later."""

    device: str = ""
    address: str = ""


UNKNOWN_ORIGIN = LoginOrigin()


class LoginSession(Struct, frozen=True, omit_defaults=True):
    """A login, as it is stored."""

    sha256: Digest
    """The digest of the token."""
    user: UserName
    proof: Digest
    created: Timestamp
    used: Timestamp
    """When it was last used, with the precision of an hour."""
    by_code: bool = False
    """True if it began with a one-time code instead of a password."""
    device: str = ""
    """The device, such as ``Firefox on Linux``; empty: before this was recorded ..."""
    address: str = ""
    """... and from which address."""

    def __post_init__(self) -> None:
        require_timestamps(self.created, self.used)

    @property
    def id(self) -> str:
        """Identifies the session; not a secret."""
        return self.sha256[:16]

    @property
    def expires_at(self) -> Timestamp:
        """The moment at which it ends unless it is used before."""
        if self.by_code:
            return format_iso(parse_iso(self.created) + CODE_SESSION_LIFETIME)
        return format_iso(
            min(parse_iso(self.created) + MAX_SESSION_AGE, parse_iso(self.used) + IDLE_LIFETIME)
        )


def begin_session(
    user: User, at: Timestamp, origin: LoginOrigin = UNKNOWN_ORIGIN, *, by_code: bool = False
) -> tuple[str, LoginSession]:
    """Return the token of a new session, which is not stored, and the session."""
    token = ids.generate_session_token()
    digest = hash_token(token)
    return token, LoginSession(digest, user.name, user.proof, at, at, by_code, *origin)


def get_code_user(management: str, administrator: User | None) -> User:
    """Return the user that a one-time code signs in: the administrator, even without a password.

    ``management`` is the SHA-256 of the management key, or empty: with another one, the sessions
    of before end.
    """
    name, password = (
        (administrator.name, administrator.password)
        if administrator
        else (NAMELESS_ADMINISTRATOR, "")
    )
    # In the proof of the user, so that a change of either ends the session.
    return User(name, "administrator", f"{management} {password}")


def hash_token(token: str) -> str:
    """Return the hash of a session token, as it is stored."""
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class UserDirectory:
    """The users who may sign in; immutable.

    ``administrator`` is the one of the environment, which replaces a user of the same name in the
    file. ``by_code`` is the user that one-time codes sign in; a user of the file with that name and
    a lesser role may not sign in.
    """

    def __init__(
        self,
        users: Iterable[User],
        administrator: User | None = None,
        by_code: User | None = None,
    ) -> None:
        self._by_code = by_code
        self._users = {user.name: user for user in users}
        self.refused: tuple[str, ...] = ()
        """The names of users who may not sign in."""
        if administrator:
            self._users[administrator.name] = administrator
        taken = self._users.get(by_code.name) if by_code else None
        if taken and taken.role != "administrator":
            self.refused = (taken.name,)
            del self._users[taken.name]

    def __iter__(self) -> Iterator[User]:
        return iter(self._users.values())

    def get(self, name: str) -> User | None:
        """Return the user of that name, if any."""
        return self._users.get(name)

    def get_caller(self, session: LoginSession) -> Caller | None:
        """Return the user of a session; ``None`` when the user was removed or changed."""
        user = self._by_code if session.by_code else self._users.get(session.user)
        if user is None or user.proof != session.proof:
            return None
        return Caller("user", user.name, user.role, session.id)
