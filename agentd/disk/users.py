"""``users.yml`` of the configuration folder: the people who may sign in.

Written by hand, by ``agentd users`` and by an administrator; comments are left as they are. It
holds what is kept of passwords, so nobody else may read it.
"""

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct, structs

from agentd.access.login import User
from agentd.disk import document, handwritten, roundtrip
from agentd.disk.document import Document
from agentd.disk.layout import Layout
from agentd.errors import Conflict, NotFound, find_repeated, nearest

_HEADER = b"""\
# The people who may sign in to agentd: viewer (reads), manager (commands the agent) or
# administrator. `agentd users` edits this file too, and leaves your comments; what is changed
# here signs out at once whom it concerns.
format: 1
users: []
"""


class UsersYml(Struct, frozen=True):
    """The content of ``users.yml``."""

    format: Literal[1] = 1
    users: tuple[User, ...] | None = None

    def __post_init__(self) -> None:
        twice = find_repeated(user.name.lower() for user in self.users or ())
        if twice is not None:
            raise ValueError(f'two users are called "{twice}"; one must go')


class UserFile:
    """The file, for who reads it and for who edits it. Everything blocks."""

    def __init__(self, layout: Layout) -> None:
        self.path = layout.users
        self._folder = layout.config

    def load(self) -> tuple[User, ...]:
        """The users, in the file's order; none without a file.

        Raises ``Misconfigured`` with every mistake, also when others may read or write the file.
        """
        found = self._read()
        return self._parsed(found.data) if found else ()

    def find(self, name: str) -> User:
        """The one of that name. ``NotFound``."""
        users = self.load()
        return users[_index(users, name)]

    def check_free(self, name: str) -> None:
        """Raise ``Conflict`` when somebody has that name, however it is written."""
        if any(known.name.lower() == name.lower() for known in self.load()):
            raise Conflict(
                f"There is a user called {name} already; agentd users passwd {name} gives"
                " another password"
            )

    def add(self, user: User) -> None:
        """One more. ``Conflict`` when somebody has that name."""
        self.check_free(user.name)
        users, edit = self._open()
        values = structs.asdict(user)
        edit(lambda tree: tree.append("users", values), (*users, user))

    def change(self, name: str, *, role: str = "", password: str = "") -> None:
        """Another role or password, where one is given; ``password`` is hashed. ``NotFound``."""
        users, edit = self._open()
        index = _index(users, name)
        given = {"role": role, "password": password}
        values = {what: value for what, value in given.items() if value}
        user = structs.replace(users[index], **values)
        edit(
            lambda tree: tree.update("users", index, values),
            (*users[:index], user, *users[index + 1 :]),
        )

    def remove(self, name: str) -> None:
        """One less. ``NotFound``."""
        users, edit = self._open()
        index = _index(users, name)
        edit(
            lambda tree: tree.remove("users", index),
            (*users[:index], *users[index + 1 :]),
        )

    def _read(self) -> Document | None:
        return document.read(self.path, handwritten.LIMIT, guarded=True, private=True)

    def _parsed(self, data: bytes) -> tuple[User, ...]:
        return handwritten.load(self.path, data, UsersYml).users or ()

    def _open(self) -> tuple[tuple[User, ...], Callable[..., None]]:
        """The users now, and how to change them: ``edit(change, users expected then)``.

        The edit raises ``Conflict`` when the file was changed by somebody else meanwhile.
        """
        found = self._read()
        data = found.data if found and found.data.strip() else _HEADER

        def edit(change: Callable[[Any], None], expected: tuple[User, ...]) -> None:
            edited = roundtrip.edited(self.path, data, change)
            if self._parsed(edited) != expected:
                raise Conflict(handwritten.by_hand(self.path))
            document.make_folder(self._folder)
            document.replace(self.path, edited, expected=found.stamp if found else None)

        return self._parsed(data), edit


def _index(users: tuple[User, ...], name: str) -> int:
    names = [user.name for user in users]
    if name not in names:
        raise NotFound(f'There is no user called "{name[:64]}"{nearest(name, names)}')
    return names.index(name)
