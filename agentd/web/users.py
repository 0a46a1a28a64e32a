"""Who may sign in, for an administrator to see and change: ``/api/users``.

What is changed here is written to ``users.yml``, whose comments stay, and holds when the answer
comes: whoever has another role or password now, or none, is signed out.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Annotated, Protocol, TypeAlias, TypeVar
from urllib.parse import unquote

from msgspec import Meta, Struct

from agentd.access import password
from agentd.access.login import User, UserName, UserRole, is_name
from agentd.access.people import People
from agentd.errors import BadRequest
from agentd.web.call import Answer, Call

T = TypeVar("T")

Word: TypeAlias = Annotated[str, Meta(min_length=password.SHORTEST, max_length=password.LONGEST)]


class AddUser(Struct, frozen=True):
    """One more person."""

    name: UserName
    role: UserRole
    password: Word


class ChangeUser(Struct, frozen=True):
    """Another role, another password, or both; what is absent stays."""

    role: UserRole | None = None
    password: Word | None = None


class UserView(Struct, frozen=True):
    """One person."""

    name: str
    role: UserRole


class UsersView(Struct, frozen=True):
    """Everybody who may sign in, with the administrator whom the environment names."""

    users: list[UserView]


class UserBook(Protocol):
    """Where the people are written down. All block, and raise what they cannot do."""

    def find(self, name: str) -> User:
        """The one of that name."""
        ...

    def add(self, user: User) -> None:
        """One more."""
        ...

    def change(self, name: str, *, role: str = "", password: str = "") -> None:
        """Another role or hashed password, where one is given."""
        ...

    def remove(self, name: str) -> None:
        """One less."""
        ...


class Users:
    """The endpoints."""

    def __init__(self, people: People, book: UserBook) -> None:
        self._people = people
        self._book = book
        self._changing = asyncio.Lock()

    async def list_users(self, call: Call) -> Answer:
        """``GET``: everybody."""
        await self._people.fresh()
        return Answer(UsersView([UserView(user.name, user.role) for user in self._people.users]))

    async def add_user(self, call: Call) -> Answer:
        """``POST``: one more."""
        wish = call.json(AddUser)
        if not is_name(wish.name):
            raise BadRequest("The name ends in a line break")
        password.check_new(wish.password, wish.name)

        def add() -> None:
            self._book.add(User(wish.name, wish.role, password.hashed(wish.password)))

        await self._change(add)
        return Answer(UserView(wish.name, wish.role), 201)

    async def change_user(self, call: Call) -> Answer:
        """``PUT``: another role or password."""
        name, wish = _name(call), call.json(ChangeUser)
        if wish.role is None and wish.password is None:
            raise BadRequest("Nothing is to be changed", "Send role, password, or both.")
        if wish.password is not None:
            password.check_new(wish.password, name)

        def change() -> User:
            self._book.find(name)  # before the work of hashing
            kept = password.hashed(wish.password) if wish.password is not None else ""
            self._book.change(name, role=wish.role or "", password=kept)
            return self._book.find(name)

        user = await self._change(change)
        return Answer(UserView(user.name, user.role))

    async def remove_user(self, call: Call) -> Answer:
        """``DELETE``: one less."""
        await self._change(partial(self._book.remove, _name(call)))
        return Answer(status=204)

    async def _change(self, change: Callable[[], T]) -> T:
        async with self._changing:
            done = await asyncio.to_thread(change)
        await self._people.fresh()
        return done


def _name(call: Call) -> str:
    return unquote(call.params["name"], errors="replace")
