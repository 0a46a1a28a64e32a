"""``users.yml`` of the configuration folder: the users who may sign in.

It is edited by hand, by ``agentd users`` and over HTTP by an administrator; comments are kept. It
contains password hashes, so no other user of the machine may read it.
"""

from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import Struct, structs

from agentd.auth.roles import User, check_role
from agentd.core.errors import Conflict, NotFound, iter_repeated, suggest_name
from agentd.storage import document
from agentd.storage.document import Document
from agentd.storage.layout import Layout
from agentd.storage.yaml import editor as yaml_editor
from agentd.storage.yaml import reader as yaml_reader
from agentd.storage.yaml.editor import YamlEditor
from agentd.storage.yaml.schema import ValuePath

_HEADER = b"""\
# The users who may sign in to agentd, with the role viewer (reads), manager (commands the agent)
# or administrator. `agentd users` edits this file too, and keeps your comments. A user who is
# removed, or whose role or password changes, is signed out at once.
format: 1
users: []
"""


class UsersYml(Struct, frozen=True):
    """The content of ``users.yml``."""

    format: Literal[1] = 1
    users: tuple[User, ...] | None = None


class UserFile:
    """Reads and edits the file. All methods block."""

    def __init__(self, layout: Layout) -> None:
        self.path = layout.users
        self._folder = layout.config

    def load(self) -> tuple[User, ...]:
        """Return the users, in the file's order; empty without a file.

        Raises ``ConfigError`` with every problem, also when others may read or write the file.
        """
        found = self._read()
        return self._parse(found.data) if found else ()

    def find(self, name: str) -> User:
        """Return the user of that name. ``NotFound``."""
        users = self.load()
        return users[_find_index(users, name)]

    def check_free(self, name: str) -> None:
        """Raise ``Conflict`` when the name is taken, in upper or lower case."""
        if any(known.name.lower() == name.lower() for known in self.load()):
            raise Conflict(
                f"There is already a user named {name};"
                f" 'agentd users passwd {name}' changes the password"
            )

    def add(self, user: User) -> None:
        """Add a user. ``Conflict`` when the name is taken, or not for this role."""
        self.check_free(user.name)
        check_role(user.name, user.role)
        users, edit = self._open_for_edit()
        values = structs.asdict(user)
        edit(lambda text: text.append_item(("users",), values), (*users, user))

    def change(self, name: str, *, role: str = "", password: str = "") -> None:
        """Change the role or password, where given; ``password`` is a hash.

        ``NotFound``; ``Conflict`` when the name is not for this role.
        """
        users, edit = self._open_for_edit()
        index = _find_index(users, name)
        given = {"role": role, "password": password}
        values = {what: value for what, value in given.items() if value}
        user = structs.replace(users[index], **values)
        if role:
            check_role(name, user.role)
        edit(
            lambda text: text.update_item(("users",), index, values),
            (*users[:index], user, *users[index + 1 :]),
        )

    def remove(self, name: str) -> None:
        """Remove a user. ``NotFound``."""
        users, edit = self._open_for_edit()
        index = _find_index(users, name)
        edit(
            lambda text: text.remove_item(("users",), index),
            (*users[:index], *users[index + 1 :]),
        )

    def _read(self) -> Document | None:
        return document.read_document(self.path, yaml_reader.MAX_FILE_SIZE, own=True, private=True)

    def _parse(self, data: bytes) -> tuple[User, ...]:
        return yaml_reader.load_yaml(self.path, data, UsersYml, _validate).users or ()

    def _open_for_edit(self) -> tuple[tuple[User, ...], Callable[..., None]]:
        """Return the current users, and a function ``edit(change, expected users after it)``.

        The edit raises ``Conflict`` when the file was changed by somebody else meanwhile.
        """
        found = self._read()
        data = found.data if found and found.data.strip() else _HEADER

        def edit(change: Callable[[YamlEditor], object], expected: tuple[User, ...]) -> None:
            edited = yaml_editor.edit_content(self.path, data, change)
            if self._parse(edited) != expected:
                raise Conflict(yaml_reader.explain_not_editable(self.path))
            document.make_folder(self._folder)
            document.replace_document(self.path, edited, expected=found.stamp if found else None)

        return self._parse(data), edit


def _validate(content: UsersYml) -> Iterator[tuple[ValuePath, str]]:
    for index, name in iter_repeated(user.name.lower() for user in content.users or ()):
        yield ("users", index, "name"), f'two users have the name "{name}"; delete one of them'


def _find_index(users: tuple[User, ...], name: str) -> int:
    names = [user.name for user in users]
    if name not in names:
        raise NotFound(f'There is no user named "{name[:64]}"{suggest_name(name, names)}')
    return names.index(name)
