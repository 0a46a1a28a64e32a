"""The skills that a chat can be given, in the open Agent Skills format.

A skill is a folder with a file ``SKILL.md``: YAML front matter with a name and a description,
then instructions in Markdown. ``skills.yml`` gives their order and colours.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated

from msgspec import Meta, Struct, structs

from agentd.core.errors import suggest_name

NONE = "none"
"""The skill of a chat that has none."""


class FrontMatter(Struct, frozen=True):
    """The known part of the front matter; other names in it belong to other programs."""

    name: Annotated[
        str,
        Meta(
            pattern="[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
            extra={"form": "at most 64 letters, digits and . _ -, not beginning with a sign"},
        ),
    ]
    """The name of the folder."""
    description: Annotated[str, Meta(min_length=1, max_length=1024)]
    """The skill's purpose, and when to use it."""


class Skill(Struct, frozen=True):
    """Instructions that a chat can be given."""

    name: str
    description: str
    body: str
    """The instructions, in Markdown."""
    folder: str
    """Its folder, absolute: the body may name further files in it."""
    color: str = ""
    """A color such as ``#3366cc``; empty if none was given."""


class SkillAppearance(Struct, frozen=True):
    """The appearance of a skill."""

    color: Annotated[
        str, Meta(pattern="#[0-9a-fA-F]{6}", extra={"form": "a colour such as #3366cc"})
    ] = ""


class SkillSettings(Struct, frozen=True):
    """The content of ``skills.yml``; the order of its entries is the order of the skills."""

    default: str = NONE
    """The skill that is offered first for a new chat."""
    skills: dict[str, SkillAppearance] | None = None


class SkillSet(Struct, frozen=True):
    """All skills in their order, and the one that is offered first."""

    all: tuple[Skill, ...] = ()
    default: str = NONE

    def find(self, name: str) -> Skill | None:
        """Return the skill of this name; ``None`` if there is none, as for ``none`` itself."""
        return next((skill for skill in self.all if skill.name == name), None)


def arrange_skills(found: Iterable[Skill], settings: SkillSettings) -> SkillSet:
    """Sort the skills: those that the settings name first, then by alphabet.

    What the settings say of skills that are not there is passed over.
    """
    looks = settings.skills or {}
    places = {name: place for place, name in enumerate(looks)}
    shown = [
        structs.replace(skill, color=looks[skill.name].color) if skill.name in looks else skill
        for skill in found
    ]
    shown.sort(key=lambda skill: (places.get(skill.name, len(places)), skill.name))
    names = {skill.name for skill in shown}
    return SkillSet(tuple(shown), settings.default if settings.default in names else NONE)


def find_unknown_skills(
    settings: SkillSettings, names: Iterable[str]
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield entries of ``skills.yml`` for skills that do not exist: where, and what."""
    known = sorted(names)
    for name in settings.skills or {}:
        if name not in known:
            yield ("skills", name), f"there is no such skill{suggest_name(name, known)}"
    if settings.default not in (NONE, *known):
        what = f'there is no skill "{settings.default}"{suggest_name(settings.default, known)}'
        yield ("default",), what


def render_instructions(skill: Skill) -> str:
    """Return the skill's text for the model, with the folder of its further files."""
    return (
        f"# Skill: {skill.name}\n\n{skill.body.strip()}\n\n"
        f"(Files that this skill mentions are in the folder {skill.folder})\n"
    )
