"""What programs choose and people's files keep: the default model, the default skill, the looks.

Only the value in question changes in ``models.yml`` or ``skills.yml``; see ``splice``.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from msgspec import structs

from agentd.catalog.models import Models, contradictions
from agentd.catalog.skills import Look, SkillSettings
from agentd.disk import handwritten, splice
from agentd.disk.layout import Layout
from agentd.disk.reload import Reloaded
from agentd.disk.skills import SkillFolder
from agentd.errors import Conflict, Misconfigured


class Choices:
    """Writes what is chosen; when a method returns, it is in force and told.

    All raise ``Conflict`` when the file has mistakes, cannot be edited by a program or was saved
    by somebody else meanwhile, and ``Unavailable``.
    """

    def __init__(self, layout: Layout, models: Reloaded[Models], skills: SkillFolder) -> None:
        self._layout = layout
        self._models = models
        self._skills = skills
        self._writing = asyncio.Lock()

    async def model(self, name: str) -> None:
        """The model of chats that name none; empty: the engine of the settings decides."""
        async with self._writing:
            await _written(partial(_choose_model, self._layout.models, name))
            await self._models.refresh()

    async def skill(self, name: str) -> None:
        """The skill that is offered first."""
        async with self._writing:
            path = self._layout.skills_settings
            await _written(
                partial(_write_skills, path, lambda now: structs.replace(now, default=name))
            )
            await self._skills.skills()

    async def looks(self, default: str | None, looks: dict[str, Look] | None) -> None:
        """The colours, and by their order that of the skills; ``None`` stays as it is."""

        def wanted(now: SkillSettings) -> SkillSettings:
            return SkillSettings(
                now.default if default is None else default, now.skills if looks is None else looks
            )

        async with self._writing:
            await _written(partial(_write_skills, self._layout.skills_settings, wanted))
            await self._skills.skills()


async def _written(write: Callable[[], None]) -> None:
    try:
        await asyncio.to_thread(write)
    except Misconfigured as error:
        raise Conflict("The file would not be valid any more", error.message) from error


def _choose_model(path: str, name: str) -> None:
    def load(data: bytes) -> Models:
        return handwritten.load(path, data, Models, contradictions)

    def change(text: splice.Text) -> None:
        if name:
            text.set(("default",), name)
        else:
            text.drop(("default",))

    splice.rewrite(
        path, load, change, lambda before, after: after == structs.replace(before, default=name)
    )


def _write_skills(path: str, wanted: Callable[[SkillSettings], SkillSettings]) -> None:
    def load(data: bytes) -> SkillSettings:
        return handwritten.load(path, data, SkillSettings)

    def change(text: splice.Text) -> None:
        before = load(text.content.encode())
        after = wanted(before)
        if after.default != before.default:
            text.set(("default",), after.default)
        if after.skills is not None and _items(after) != _items(before):
            _arrange(text, before.skills or {}, after.skills)

    def fits(before: SkillSettings, after: SkillSettings) -> bool:
        meant = wanted(before)
        return after.default == meant.default and _items(after) == _items(meant)

    splice.rewrite(path, load, change, fits)


def _items(settings: SkillSettings) -> list[tuple[str, Look]]:
    return list((settings.skills or {}).items())


def _arrange(text: splice.Text, before: dict[str, Look], after: dict[str, Look]) -> None:
    for name in before.keys() - after.keys():
        text.drop(("skills", name))
    for name, look in after.items():
        if name not in before:
            text.set(("skills", name), {"color": look.color} if look.color else {})
        elif look.color and look != before[name]:
            text.set(("skills", name, "color"), look.color)
        elif look != before[name]:
            text.drop(("skills", name, "color"))
    text.arrange(("skills",), after)
