"""The skills as the extended surface lists, reads, selects and arranges them.

Source: the remote-control specification, section 4, 'Extended surface'; fields are ours.
"""

from typing import Annotated, Protocol

from msgspec import Meta, Struct, structs

from agentd.catalog.skills import NONE, Look, Skills
from agentd.chats.records import ChatChanged
from agentd.chats.service import ChatService
from agentd.errors import BadRequest, Mistake, NotFound, nearest
from agentd.web.call import Answer, Call
from agentd.web.catalog_views import SkillView, skill_view, skills_view
from agentd.web.views import Id, Name


class SkillTextView(SkillView, frozen=True, rename="camel"):
    """A skill with its instructions, in Markdown."""

    text: str


class SelectSkill(Struct, frozen=True, rename="camel"):
    """A skill for a chat, or without one the skill that is offered first; ``none``: none."""

    skill: Name
    chat_id: Id | None = None


class SelectedSkillView(Struct, frozen=True, rename="camel"):
    """What was selected."""

    skill: str
    chat_id: Id | None


class SkillLook(Struct, frozen=True):
    """How one skill is shown."""

    name: Name
    color: Annotated[str, Meta(pattern="^(#[0-9a-fA-F]{6})?$")] = ""
    """Such as ``#3366cc``; empty: none of its own."""


class SkillLooksView(Struct, frozen=True):
    """All skills in their order, with their colours, and the one that is offered first."""

    default: str
    skills: list[SkillLook]


class ArrangeSkills(Struct, frozen=True):
    """What to change. ``skills`` is the whole order; those left out follow by alphabet."""

    default: Name | None = None
    skills: list[SkillLook] | None = None


class SkillSource(Protocol):
    """The skills (``disk.skills.SkillFolder``)."""

    mistakes: tuple[Mistake, ...]

    async def skills(self) -> Skills:
        """All of them, as their files are at the call."""
        ...


class Choosing(Protocol):
    """Keeps what ``skills.yml`` says (``disk.choices.Choices``)."""

    async def skill(self, name: str) -> None:
        """The skill that is offered first."""
        ...

    async def looks(self, default: str | None, looks: dict[str, Look] | None) -> None:
        """The colours, and by their order that of the skills; ``None`` stays as it is."""
        ...


class SkillDesk:
    """The endpoints below ``/api/skills`` and ``/api/skills-settings``."""

    def __init__(self, chats: ChatService, skills: SkillSource, choices: Choosing) -> None:
        self._chats = chats
        self._skills = skills
        self._choices = choices

    async def skills(self, _: Call) -> Answer:
        """All skills in their order."""
        return Answer(skills_view(await self._skills.skills(), self._skills.mistakes))

    async def read_skill(self, call: Call) -> Answer:
        """One skill with its text."""
        skills, name = await self._skills.skills(), call.name()
        skill = skills.find(name)
        if skill is None:
            raise _unknown(name, skills)
        shown = structs.asdict(skill_view(skill, skills.default))
        return Answer(SkillTextView(**shown, text=skill.body))

    async def select_skill(self, call: Call) -> Answer:
        """A skill for one chat, or as the one that is offered first."""
        wish = call.json(SelectSkill)
        _known(wish.skill, await self._skills.skills())
        if wish.chat_id is None:
            await self._choices.skill(wish.skill)
        else:
            await self._chats.change(wish.chat_id, ChatChanged(skill=wish.skill), call.caller.by)
        return Answer(SelectedSkillView(wish.skill, wish.chat_id))

    async def skill_looks(self, _: Call) -> Answer:
        """Order, colours and default."""
        return Answer(_looks(await self._skills.skills()))

    async def arrange_skills(self, call: Call) -> Answer:
        """Change order, colours or default."""
        wish = call.json(ArrangeSkills)
        skills = await self._skills.skills()
        names = [look.name for look in wish.skills or ()]
        for name in names:
            if skills.find(name) is None:
                raise _unknown(name, skills)
        if len(set(names)) < len(names):
            raise BadRequest("A skill is there twice")
        if wish.default is not None:
            _known(wish.default, skills)
        looks = {look.name: Look(look.color) for look in wish.skills or ()}
        await self._choices.looks(wish.default, None if wish.skills is None else looks)
        return Answer(_looks(await self._skills.skills()))


def _looks(skills: Skills) -> SkillLooksView:
    return SkillLooksView(
        skills.default, [SkillLook(skill.name, skill.color) for skill in skills.all]
    )


def _known(name: str, skills: Skills) -> None:
    if name != NONE and skills.find(name) is None:
        raise _unknown(name, skills)


def _unknown(name: str, skills: Skills) -> NotFound:
    names = [skill.name for skill in skills.all]
    return NotFound(f'No skill is named "{name[:100]}"{nearest(name, names)}')
