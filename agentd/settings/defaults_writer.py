"""Choices made by programs in files of people: default model, default skill, appearance.

Only the value in question changes in ``models.yml`` or ``skills.yml``; see ``splice``.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec import structs

from agentd.core.errors import ConfigError, Conflict
from agentd.models.model import Models, validate
from agentd.skills.model import SkillAppearance, SkillSettings
from agentd.skills.store import SkillFolder
from agentd.storage.layout import Layout
from agentd.storage.watched_file import WatchedFile
from agentd.storage.yaml import editor as yaml_editor
from agentd.storage.yaml import reader as yaml_reader


class DefaultsWriter:
    """Writes the choices; when a method returns, they are in force and published.

    All raise ``Conflict`` when the file has mistakes, cannot be edited by a program or was saved
    by somebody else meanwhile, and ``Unavailable``.
    """

    def __init__(self, layout: Layout, models: WatchedFile[Models], skills: SkillFolder) -> None:
        self._layout = layout
        self._models = models
        self._skills = skills
        self._writing = asyncio.Lock()

    async def set_default_model(self, name: str) -> None:
        """Set the default model; empty: the engine of the settings decides."""
        async with self._writing:
            write = partial(_choose_model, self._layout.models, name)
            await _raise_conflict(self._models.write(write))

    async def set_default_skill(self, name: str) -> None:
        """Set the default skill."""
        await self._write_skills(lambda now: structs.replace(now, default=name))

    async def set_appearance(
        self, default: str | None, looks: dict[str, SkillAppearance] | None
    ) -> None:
        """Set default, order and colours of the skills; ``None`` leaves a value unchanged.

        What the file says of skills that are not there, or cannot be read now, stays at its end.
        """
        known = {skill.name for skill in self._skills.current.all}

        def apply_changes(now: SkillSettings) -> SkillSettings:
            others = {name: look for name, look in (now.skills or {}).items() if name not in known}
            return SkillSettings(
                now.default if default is None else default,
                now.skills if looks is None else {**looks, **others},
            )

        await self._write_skills(apply_changes)

    async def _write_skills(self, change: Callable[[SkillSettings], SkillSettings]) -> None:
        async with self._writing:
            path = self._layout.skills_settings
            try:
                await _raise_conflict(asyncio.to_thread(_write_skills, path, change))
            finally:  # a write may have got so far before it failed
                await self._skills.get_skills()


async def _raise_conflict(writing: Awaitable[None]) -> None:
    """Wait for a write; of a file with mistakes, raise ``Conflict``."""
    try:
        await writing
    except ConfigError as error:
        raise Conflict("The file would not be valid any more", error.message) from error


def _choose_model(path: str, name: str) -> None:
    def load(data: bytes) -> Models:
        return yaml_reader.load_yaml(path, data, Models, validate)

    def change(text: yaml_editor.YamlEditor) -> None:
        if name:
            text.set(("default",), name)
        else:
            text.delete(("default",))

    yaml_editor.edit_yaml_file(
        path, load, change, lambda before, after: after == structs.replace(before, default=name)
    )


def _write_skills(path: str, wanted: Callable[[SkillSettings], SkillSettings]) -> None:
    def load(data: bytes) -> SkillSettings:
        return yaml_reader.load_yaml(path, data, SkillSettings)

    def change(text: yaml_editor.YamlEditor) -> None:
        before = load(text.content.encode())
        after = wanted(before)
        if after.default != before.default:
            text.set(("default",), after.default)
        if after.skills is not None and _list_items(after) != _list_items(before):
            _arrange(text, before.skills or {}, after.skills)

    def fits(before: SkillSettings, after: SkillSettings) -> bool:
        meant = wanted(before)
        return after.default == meant.default and _list_items(after) == _list_items(meant)

    yaml_editor.edit_yaml_file(path, load, change, fits)


def _list_items(settings: SkillSettings) -> list[tuple[str, SkillAppearance]]:
    return list((settings.skills or {}).items())


def _arrange(
    text: yaml_editor.YamlEditor,
    before: dict[str, SkillAppearance],
    after: dict[str, SkillAppearance],
) -> None:
    for name in before.keys() - after.keys():
        text.delete(("skills", name))
    for name, look in after.items():
        if name not in before:
            text.set(("skills", name), {"color": look.color} if look.color else {})
        elif look.color and look != before[name]:
            text.set(("skills", name, "color"), look.color)
        elif look != before[name]:
            text.delete(("skills", name, "color"))
    text.reorder(("skills",), after)
