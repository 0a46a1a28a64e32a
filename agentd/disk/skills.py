"""The skills of the configuration folder, in the open Agent Skills layout.

A skill is a folder ``skills/<name>`` with a file ``SKILL.md``; ``skills.yml`` beside them orders
and colours them. They are few and edited by hand: each look compares stamps, and reads what is
new. A broken skill stays as it last was, and hides no other.
"""

import asyncio
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from agentd.catalog.skills import (
    NONE,
    FrontMatter,
    Skill,
    Skills,
    SkillSettings,
    arranged,
    strangers,
)
from agentd.disk import document, handwritten
from agentd.disk.layout import Layout
from agentd.disk.reload import LastGood
from agentd.errors import AgentdError, Misconfigured, Mistake

T = TypeVar("T")

FILE = "SKILL.md"

LIMIT = 128 * 1024
"""The largest ``SKILL.md``, in bytes: all of it is told to the model."""

_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FRONT = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)


class SkillFolder:
    """The skills as they are now. ``changed`` is called on the loop when they are others."""

    def __init__(self, layout: Layout, changed: Callable[[], None] = lambda: None) -> None:
        self._layout = layout
        self._changed = changed
        self._looking = asyncio.Lock()
        self._settings = LastGood(
            layout.skills_settings, lambda: load_settings(layout), SkillSettings()
        )
        self._files: dict[str, LastGood[Skill | None]] = {}
        self.current = Skills()
        """The skills as they were when they were last looked at."""
        self.mistakes: tuple[Mistake, ...] = ()
        """What is wrong with the skills as they are now."""

    async def known(self, name: str) -> bool:
        """True for ``none`` and for each skill that could be read."""
        return name == NONE or (await self.skills()).find(name) is not None

    async def skills(self) -> Skills:
        """All skills, as their files are at the call."""
        async with self._looking:
            before = self.current, self.mistakes
            self.current, self.mistakes = await asyncio.to_thread(self._look)
        if (self.current, self.mistakes) != before:
            self._changed()
        return self.current

    def _look(self) -> tuple[Skills, tuple[Mistake, ...]]:
        try:
            names, mistakes = _folders(self._layout)
        except AgentdError as error:
            return self.current, _mistakes(self._layout, error)
        mistakes += _taken(self._settings)
        self._files = {name: self._files.get(name) or self._file(name) for name in names}
        for file in self._files.values():
            mistakes += _taken(file)
        found = [file.value for file in self._files.values() if file.value]
        return arranged(found, self._settings.value), tuple(mistakes)

    def _file(self, name: str) -> LastGood[Skill | None]:
        path = os.path.join(self._layout.skills, name, FILE)
        return LastGood(path, lambda: load_skill(self._layout, name), None)


def check(layout: Layout) -> Iterator[Mistake]:
    """Everything that is wrong with any skill, or with ``skills.yml``. Blocking."""
    try:
        names, mistakes = _folders(layout)
    except AgentdError as error:
        yield from _mistakes(layout, error)
        return
    yield from mistakes
    looks: list[Callable[[], object]] = [partial(load_skill, layout, name) for name in names]
    looks.append(partial(load_settings, layout, names))
    for look in looks:
        try:
            look()
        except AgentdError as error:
            yield from _mistakes(layout, error)


def load_skill(layout: Layout, name: str) -> Skill:
    """The skill in the folder of this name. Blocking; ``Misconfigured`` or ``Unavailable``."""
    folder = os.path.join(layout.skills, name)
    path = os.path.join(folder, FILE)
    found = document.read(path, LIMIT)
    if found is None:
        raise Misconfigured([Mistake(path, 0, "is missing")])
    text = handwritten.decoded(path, found.data).replace("\r\n", "\n")
    front = _FRONT.match(text)
    if not front:
        what = "expected front matter: a line ---, name and description, and another line ---"
        raise Misconfigured([Mistake(path, 1, what)])
    # In the place of its first line an empty one: then the lines are the file's own.
    yaml = ("\n" + front[1]).encode()
    matter = handwritten.load(path, yaml, FrontMatter, lambda it: _misnamed(it, name), others=True)
    return Skill(name, matter.description.strip(), text[front.end() :].strip(), folder)


def load_settings(layout: Layout, names: list[str] | None = None) -> SkillSettings:
    """What ``skills.yml`` says; the defaults when there is none.

    With ``names``, what it says of other skills is a mistake too. Blocking; raises
    ``Misconfigured`` or ``Unavailable``.
    """
    path = layout.skills_settings
    found = document.read(path, handwritten.LIMIT)
    if found is None:
        return SkillSettings()
    return handwritten.load(
        path,
        found.data,
        SkillSettings,
        None if names is None else lambda settings: strangers(settings, names),
    )


def _taken(file: LastGood[T]) -> tuple[Mistake, ...]:
    """Put in force what the file says now; what is wrong with it. Blocking."""
    reading = file.read()
    if reading:
        file.take(reading)
    return file.mistakes


def _mistakes(layout: Layout, error: AgentdError) -> tuple[Mistake, ...]:
    if isinstance(error, Misconfigured):
        return tuple(error.mistakes)
    return (Mistake(layout.skills, 0, error.message),)


def _misnamed(matter: FrontMatter, folder: str) -> Iterator[tuple[tuple[str], str]]:
    if matter.name != folder:
        yield ("name",), f'found "{matter.name}", expected the name of its folder, "{folder}"'


def _folders(layout: Layout) -> tuple[list[str], list[Mistake]]:
    """The names of the folders that are skills, and what is wrong with the others."""
    names: list[str] = []
    mistakes: list[Mistake] = []
    with document.told(layout.skills, "read"):
        try:
            entries = sorted(os.listdir(layout.skills))
        except FileNotFoundError:
            return names, mistakes
    for name in entries:
        path = os.path.join(layout.skills, name)
        if name.startswith(".") or not (os.path.islink(path) or os.path.isdir(path)):
            continue
        wrong = _why_unfit(name, path)
        if wrong:
            mistakes.append(Mistake(path, 0, wrong))
        else:
            names.append(name)
    return names, mistakes


def _why_unfit(name: str, path: str) -> str:
    """Why this cannot be a skill's folder; empty when it can."""
    if os.path.islink(path):
        return "is a symbolic link; put the folder itself there"
    if name == NONE:
        return f'cannot be a skill: "{NONE}" means that a chat has none; give it another name'
    if not _NAME.fullmatch(name):
        return "cannot be a skill's name: expected letters, digits, dots and dashes"
    if not os.path.lexists(os.path.join(path, FILE)):
        return f"has no {FILE}; a skill's instructions stand there"
    return ""
