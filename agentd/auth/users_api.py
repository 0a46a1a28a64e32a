"""The users who may sign in, for administrators: the endpoints and routes of ``/api/users``.

A change is written to ``users.yml``, whose comments are kept, and is in effect when the response
is sent: a user whose role or password changed, or who was removed, is signed out.
"""

import asyncio
from collections.abc import Callable
from typing import Annotated, Protocol, TypeAlias, TypeVar
from urllib.parse import unquote

from msgspec import Meta, Struct

from agentd.auth import password
from agentd.auth.roles import User, UserName, UserRole, is_user_name
from agentd.auth.sessions import SessionManager
from agentd.core.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    LimitReached,
    NotFound,
    Unavailable,
)
from agentd.http.access import RouteGroup
from agentd.http.request import Request, Response
from agentd.http.routing import Route
from agentd.http.throttle import AuthThrottle, get_network

T = TypeVar("T")

MAX_PASSWORDS_BODY = 32 * 1024
"""Bytes of a change of password: the two longest passwords, with every character escaped."""

NewPassword: TypeAlias = Annotated[
    str, Meta(min_length=password.MIN_LENGTH, max_length=password.MAX_LENGTH)
]


class AddUser(Struct, frozen=True):
    """A new user."""

    name: UserName
    role: UserRole
    password: NewPassword


class ChangeUser(Struct, frozen=True):
    """A new role, a new password, or both; what is absent stays."""

    role: UserRole | None = None
    password: NewPassword | None = None


class ChangeOwnPassword(Struct, frozen=True, rename="camel"):
    """Another password for the caller."""

    password: Annotated[str, Meta(max_length=password.MAX_LENGTH)]
    """The current one."""
    new_password: NewPassword
    """The next one."""


class UserView(Struct, frozen=True):
    """A user."""

    name: str
    role: UserRole


class UsersView(Struct, frozen=True):
    """All users who may sign in, including the administrator of the environment."""

    users: list[UserView]


class UserRepository(Protocol):
    """Stores the users. All methods block, and raise when they fail."""

    def load(self) -> tuple[User, ...]:
        """Return all users."""
        ...

    def find(self, name: str) -> User:
        """Return the user of that name."""
        ...

    def add(self, user: User) -> None:
        """Add a user."""
        ...

    def change(self, name: str, *, role: str = "", password: str = "") -> None:
        """Change the role or the password hash, where given."""
        ...

    def remove(self, name: str) -> None:
        """Remove a user."""
        ...


class UserEndpoints:
    """List, add, change and remove users.

    ``has_administrator``: the settings name an administrator, whom no change here removes.
    """

    def __init__(
        self,
        sessions: SessionManager,
        repository: UserRepository,
        throttle: AuthThrottle,
        *,
        has_administrator: bool = False,
    ) -> None:
        self._has_administrator = has_administrator
        self._sessions = sessions
        self._throttle = throttle
        self._repository = repository
        self._changing = asyncio.Lock()

    async def list_users(self, call: Request) -> Response:
        """Return all users."""
        await self._sessions.ensure_current()
        return Response(
            UsersView([UserView(user.name, user.role) for user in self._sessions.users])
        )

    async def add_user(self, call: Request) -> Response:
        """Add a user."""
        payload = call.parse_json(AddUser)
        if not is_user_name(payload.name):
            raise BadRequest("The name ends in a line break")
        password.check_new_password(payload.password, payload.name)
        user = User(payload.name, payload.role, await self._hash(payload.password))
        await self._change(call, lambda: self._repository.add(user))
        return Response(UserView(payload.name, payload.role), 201)

    async def change_user(self, call: Request) -> Response:
        """Change the role or the password of a user."""
        name, payload = _get_user_name(call), call.parse_json(ChangeUser)
        if payload.role is None and payload.password is None:
            raise BadRequest("There is nothing to change", "Send role, password, or both.")
        if payload.password is not None:
            password.check_new_password(payload.password, name)
        await asyncio.to_thread(self._repository.find, name)  # before hashing, which is expensive
        hashed = await self._hash(payload.password) if payload.password is not None else ""

        def change() -> User:
            if payload.role not in (None, "administrator"):
                self._require_other_administrator(name)
            self._repository.change(name, role=payload.role or "", password=hashed)
            return self._repository.find(name)

        user = await self._change(call, change)
        return Response(UserView(user.name, user.role))

    async def remove_user(self, call: Request) -> Response:
        """Remove a user."""
        name = _get_user_name(call)

        def remove() -> None:
            self._require_other_administrator(name)
            self._repository.remove(name)

        await self._change(call, remove)
        return Response(status=204)

    async def sign_out_user(self, call: Request) -> Response:
        """End all sessions of a user."""
        name = _get_user_name(call)
        await self._sessions.ensure_current()
        if all(user.name != name for user in self._sessions.users):
            raise NotFound(f'There is no user "{name[:100]}"')
        await self._sessions.sign_out_user(name)
        return Response(status=204)

    async def change_own_password(self, call: Request) -> Response:
        """Change the caller's password, which ends all sessions of the caller."""
        payload = call.parse_json(ChangeOwnPassword)
        name = call.caller.name
        if call.caller.kind != "user":
            raise Forbidden("Only users have a password", "A key has no password: sign in.")
        try:
            await self._sessions.verify_password(
                call.caller, payload.password, get_network(call.remote_ip)
            )
        except Forbidden as error:
            if self._throttle.record_failure(call.remote_ip):
                await self._throttle.raise_delayed(error)
            raise
        password.check_new_password(payload.new_password, name)
        hashed = await self._hash(payload.new_password)
        await self._change(call, lambda: self._repository.change(name, password=hashed))
        return Response(status=204)

    def _require_other_administrator(self, name: str) -> None:
        """Raise ``Conflict`` if this user is the only administrator. Blocks."""
        if self._has_administrator:
            return
        known = self._repository.load()
        if [one.name for one in known if one.role == "administrator"] == [name]:
            raise Conflict(
                f"{name} is the only administrator", "Make somebody else an administrator first."
            )

    async def _hash(self, entered: str) -> str:
        """Return the hash of a new password; one at a time, since that takes much of the CPU."""
        async with self._changing:
            return await asyncio.to_thread(password.hash_password, entered)

    async def _change(self, call: Request, change: Callable[[], T]) -> T:
        async with self._changing:
            await call.confirm_caller()  # that took long: the caller may be removed by now
            done = await asyncio.to_thread(change)
        await self._sessions.ensure_current()
        return done


def _get_user_name(call: Request) -> str:
    return unquote(call.path_params["name"], errors="replace")


def routes(endpoints: UserEndpoints) -> tuple[Route, ...]:
    """Return the routes of users."""
    group, path = RouteGroup.EXTENDED, "/api/users"
    return (
        Route(
            "GET",
            path,
            group,
            endpoints.list_users,
            "List all users who may sign in.",
            response_type=UsersView,
            role="administrator",
        ),
        Route(
            "POST",
            path,
            group,
            endpoints.add_user,
            "Add a user.",
            request_type=AddUser,
            response_type=UserView,
            status=201,
            errors=(BadRequest, Conflict, Unavailable),
            role="administrator",
        ),
        Route(
            "PUT",
            f"{path}/{{name}}",
            group,
            endpoints.change_user,
            "Change the role or the password of a user, who is signed out.",
            request_type=ChangeUser,
            response_type=UserView,
            errors=(BadRequest, NotFound, Conflict, Unavailable),
            role="administrator",
        ),
        Route(
            "DELETE",
            f"{path}/{{name}}",
            group,
            endpoints.remove_user,
            "Remove a user, who is signed out.",
            status=204,
            errors=(NotFound, Conflict, Unavailable),
            role="administrator",
        ),
        *_list_session_routes(endpoints),
    )


def _list_session_routes(endpoints: UserEndpoints) -> tuple[Route, ...]:
    return (
        Route(
            "DELETE",
            "/api/users/{name}/sessions",
            RouteGroup.EXTENDED,
            endpoints.sign_out_user,
            "End all sessions of a user, on every device.",
            status=204,
            errors=(NotFound, Unavailable),
            role="administrator",
        ),
        Route(
            "PUT",
            "/api/session/password",
            RouteGroup.EXTENDED,
            endpoints.change_own_password,
            "Change your password; all your logins end, this one included.",
            request_type=ChangeOwnPassword,
            status=204,
            errors=(BadRequest, Forbidden, NotFound, Conflict, LimitReached, Unavailable),
            role="viewer",
            max_body=MAX_PASSWORDS_BODY,
        ),
    )
