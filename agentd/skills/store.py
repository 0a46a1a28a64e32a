"""The skills of the configuration folder, in the open Agent Skills layout.

A skill is a folder ``skills/<name>`` with a file ``SKILL.md``; ``skills.yml`` beside them orders
and colours them. They are few and edited by hand: each look compares stamps, and reads what is
new. A broken skill stays as it last was, and hides no other.
"""

import asyncio
import codecs
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from agentd.core.errors import AgentdError, ConfigError, ConfigProblem
from agentd.core.front_matter import split_front_matter
from agentd.skills.model import (
    NONE,
    FrontMatter,
    Skill,
    SkillSet,
    SkillSettings,
    arrange_skills,
    find_unknown_skills,
)
from agentd.storage import document
from agentd.storage.layout import Layout
from agentd.storage.watched_file import SETTLE_SECONDS, FileContent
from agentd.storage.yaml import reader as yaml_reader

FILE = "SKILL.md"

LIMIT = 128 * 1024
"""The largest ``SKILL.md``, in bytes: all of it is sent to the model."""

_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class SkillFolder:
    """The skills as they are now. ``changed`` is called on the loop when they change."""

    def __init__(self, layout: Layout, changed: Callable[[], None] = lambda: None) -> None:
        self._layout = layout
        self._changed = changed
        self._looking = asyncio.Lock()
        self._settings = FileContent(
            layout.skills_settings, lambda: load_settings(layout), SkillSettings()
        )
        self._files: dict[str, FileContent[Skill | None]] = {}
        self.current = SkillSet()
        """The skills at the last check."""
        self.problems: tuple[ConfigProblem, ...] = ()
        """The problems in the skills' files."""

    async def is_known(self, name: str) -> bool:
        """Return True for ``none`` and for each skill that could be read."""
        return name == NONE or (await self.get_skills()).find(name) is not None

    async def get_skills(self) -> SkillSet:
        """Return all skills as their files are at the call."""
        async with self._looking:
            before = self.current, self.problems
            self.current, self.problems = await asyncio.to_thread(self._reload_all)
        if (self.current, self.problems) != before:
            self._changed()
        return self.current

    def _reload_all(self) -> tuple[SkillSet, tuple[ConfigProblem, ...]]:
        try:
            names, problems = _list_folders(self._layout)
        except AgentdError as error:
            return self.current, _list_problems(self._layout, error)
        self._files = {name: self._files.get(name) or self._get_file(name) for name in names}
        problems += _reload((self._settings, *self._files.values()))
        found = [file.value for file in self._files.values() if file.value]
        return arrange_skills(found, self._settings.value), tuple(problems)

    def _get_file(self, name: str) -> FileContent[Skill | None]:
        path = os.path.join(self._layout.skills, name, FILE)
        return FileContent(path, lambda: load_skill(self._layout, name), None)


def check(layout: Layout) -> Iterator[ConfigProblem]:
    """Return all problems of the skills and of ``skills.yml``. Blocking."""
    try:
        names, problems = _list_folders(layout)
    except AgentdError as error:
        yield from _list_problems(layout, error)
        return
    yield from problems
    looks: list[Callable[[], object]] = [partial(load_skill, layout, name) for name in names]
    looks.append(partial(load_settings, layout, names))
    for look in looks:
        try:
            look()
        except AgentdError as error:
            yield from _list_problems(layout, error)


def load_skill(layout: Layout, name: str) -> Skill:
    """Read the skill in the folder of this name. Blocking; ``ConfigError`` or ``Unavailable``."""
    folder = os.path.join(layout.skills, name)
    path = os.path.join(folder, FILE)
    found = document.read_document(path, LIMIT)
    if found is None:
        raise ConfigError([ConfigProblem(path, 0, "is missing")])
    data = found.data.removeprefix(codecs.BOM_UTF8)
    text = yaml_reader.decode_text(path, data).replace("\r\n", "\n")
    front, body = split_front_matter(text)
    if not front:
        what = "expected front matter: a line ---, name and description, and another line ---"
        raise ConfigError([ConfigProblem(path, 1, what)])
    matter = yaml_reader.load_yaml(
        path, front.encode(), FrontMatter, lambda it: _validate_name(it, name), ignore_unknown=True
    )
    return Skill(name, matter.description.strip(), body.strip(), folder)


def load_settings(layout: Layout, names: list[str] | None = None) -> SkillSettings:
    """Read ``skills.yml``; the defaults if there is no file.

    With ``names``, what it says of other skills is a mistake too. Blocking; raises
    ``ConfigError`` or ``Unavailable``.
    """
    path = layout.skills_settings
    found = document.read_document(path, yaml_reader.MAX_FILE_SIZE)
    if found is None:
        return SkillSettings()
    return yaml_reader.load_yaml(
        path,
        found.data,
        SkillSettings,
        None if names is None else lambda settings: find_unknown_skills(settings, names),
    )


def _reload(files: Sequence[FileContent[Any]]) -> list[ConfigProblem]:
    """Put in force what the files say now; what is wrong with them. Blocking.

    A file that may be only partly saved is read again after a moment.
    """
    readings = [(file, file.read()) for file in files]
    if any(reading and file.is_settling(reading) for file, reading in readings):
        time.sleep(SETTLE_SECONDS)
        readings = [(file, file.read()) for file in files]
    for file, reading in readings:
        if reading:
            file.apply(reading)
    return [problem for file in files for problem in file.problems]


def _list_problems(layout: Layout, error: AgentdError) -> tuple[ConfigProblem, ...]:
    if isinstance(error, ConfigError):
        return tuple(error.problems)
    return (ConfigProblem(layout.skills, 0, error.message),)


def _validate_name(matter: FrontMatter, folder: str) -> Iterator[tuple[tuple[str], str]]:
    if matter.name != folder:
        yield ("name",), f'found "{matter.name}", expected the name of its folder, "{folder}"'


def _list_folders(layout: Layout) -> tuple[list[str], list[ConfigProblem]]:
    """Return the names of valid skill folders, and the problems of the others."""
    names: list[str] = []
    problems: list[ConfigProblem] = []
    with document.translate_os_errors(layout.skills, "read"):
        try:
            entries = sorted(os.listdir(layout.skills))
        except FileNotFoundError:
            return names, problems
    for name in entries:
        path = os.path.join(layout.skills, name)
        if name.startswith(".") or not (os.path.islink(path) or os.path.isdir(path)):
            continue
        wrong = _explain_unusable(name, path)
        if wrong:
            problems.append(ConfigProblem(path, 0, wrong))
        else:
            names.append(name)
    return names, problems


def _explain_unusable(name: str, path: str) -> str:
    """Explain why this cannot be a skill's folder; empty when it can."""
    if os.path.islink(path):
        return "is a symbolic link; put the folder itself there"
    if name == NONE:
        return f'cannot be a skill: "{NONE}" means that a chat has none; give it another name'
    if not _NAME.fullmatch(name):
        return "cannot be a skill's name: expected letters, digits, dots and dashes"
    if not os.path.lexists(os.path.join(path, FILE)):
        return f"has no {FILE}; a skill's instructions stand there"
    return ""
