"""The skills as the extended surface lists, reads, selects and arranges them.

Source: the remote-control specification, section 4, 'Extended surface'; fields are ours.
"""

from typing import Annotated, Protocol

from msgspec import Meta, Struct, structs

from agentd.chats.records import ChatChanged
from agentd.chats.service import ChatService
from agentd.chats.views import Id, Name
from agentd.core.errors import (
    BadRequest,
    ConfigProblem,
    Conflict,
    NotFound,
    Unavailable,
    suggest_name,
)
from agentd.http.access import RouteGroup
from agentd.http.request import Request, Response
from agentd.http.routing import Route
from agentd.skills.model import NONE, SkillAppearance, SkillSet
from agentd.skills.views import SkillsView, SkillView, make_skill_view, make_skills_view


class SkillTextView(SkillView, frozen=True, rename="camel"):
    """A skill with its instructions, in Markdown."""

    text: str


class SelectSkill(Struct, frozen=True, rename="camel"):
    """The skill of a chat, or without one the default skill; ``none``: none."""

    skill: Name
    chat_id: Id | None = None


class SelectedSkillView(Struct, frozen=True, rename="camel"):
    """The selected skill."""

    skill: str
    chat_id: Id | None


class SkillAppearanceView(Struct, frozen=True):
    """The appearance of a skill."""

    name: Name
    color: Annotated[
        str, Meta(pattern="^(#[0-9a-fA-F]{6})?$", extra={"form": "a colour such as #3366cc"})
    ] = ""
    """A color such as ``#3366cc``; empty: none of its own."""


class SkillSettingsView(Struct, frozen=True):
    """All skills in their order, with their colours, and the default one."""

    default: str
    skills: list[SkillAppearanceView]


class ArrangeSkills(Struct, frozen=True):
    """The changes. ``skills`` is the whole order; omitted ones follow alphabetically."""

    default: Name | None = None
    skills: list[SkillAppearanceView] | None = None


class InstalledSkills(Protocol):
    """The skills (``skills.store.SkillFolder``)."""

    problems: tuple[ConfigProblem, ...]

    async def get_skills(self) -> SkillSet:
        """Return all skills as their files are at the request."""
        ...


class SkillDefaultsWriter(Protocol):
    """Keeps what ``skills.yml`` says (``settings.defaults_writer.DefaultsWriter``)."""

    async def set_default_skill(self, name: str) -> None:
        """Set the default skill."""
        ...

    async def set_appearance(
        self, default: str | None, looks: dict[str, SkillAppearance] | None
    ) -> None:
        """Set default, order and colours of the skills; ``None`` leaves a value unchanged."""
        ...


class SkillEndpoints:
    """The endpoints below ``/api/skills`` and ``/api/skills-settings``."""

    def __init__(
        self, chats: ChatService, skills: InstalledSkills, choices: SkillDefaultsWriter
    ) -> None:
        self._chats = chats
        self._skills = skills
        self._choices = choices

    async def list_skills(self, _: Request) -> Response:
        """List all skills in their order."""
        return Response(make_skills_view(await self._skills.get_skills(), self._skills.problems))

    async def read_skill(self, request: Request) -> Response:
        """Return a skill with its text."""
        skills, name = await self._skills.get_skills(), request.get_name()
        skill = skills.find(name)
        if skill is None:
            raise _make_not_found_error(name, skills)
        shown = structs.asdict(make_skill_view(skill, skills.default))
        return Response(SkillTextView(**shown, text=skill.body))

    async def select_skill(self, request: Request) -> Response:
        """Set the skill of one chat, or the default skill."""
        body = request.parse_json(SelectSkill)
        _require_skill(body.skill, await self._skills.get_skills())
        if body.chat_id is None:
            await self._choices.set_default_skill(body.skill)
        else:
            await self._chats.change_chat(
                body.chat_id, ChatChanged(skill=body.skill), request.caller.identity
            )
        return Response(SelectedSkillView(body.skill, body.chat_id))

    async def get_skill_settings(self, _: Request) -> Response:
        """Order, colours and default."""
        return Response(_make_settings_view(await self._skills.get_skills()))

    async def change_skill_settings(self, request: Request) -> Response:
        """Change order, colours or default."""
        body = request.parse_json(ArrangeSkills)
        skills = await self._skills.get_skills()
        names = [look.name for look in body.skills or ()]
        for name in names:
            if skills.find(name) is None:
                raise _make_not_found_error(name, skills)
        if len(set(names)) < len(names):
            raise BadRequest("A skill is listed twice")
        if body.default is not None:
            _require_skill(body.default, skills)
        looks = {look.name: SkillAppearance(look.color) for look in body.skills or ()}
        await self._choices.set_appearance(body.default, None if body.skills is None else looks)
        return Response(_make_settings_view(await self._skills.get_skills()))


def _make_settings_view(skills: SkillSet) -> SkillSettingsView:
    return SkillSettingsView(
        skills.default, [SkillAppearanceView(skill.name, skill.color) for skill in skills.all]
    )


def _require_skill(name: str, skills: SkillSet) -> None:
    if name != NONE and skills.find(name) is None:
        raise _make_not_found_error(name, skills)


def _make_not_found_error(name: str, skills: SkillSet) -> NotFound:
    names = [skill.name for skill in skills.all]
    return NotFound(f'No skill is named "{name[:100]}"{suggest_name(name, names)}')


SECTION = "4, extended surface"
"""The section of the remote-control specification."""


def routes(endpoints: SkillEndpoints) -> tuple[Route, ...]:
    """Return the routes of skills."""
    return (
        *_list_settings_routes(endpoints),
        Route(
            "GET",
            "/api/skills",
            RouteGroup.EXTENDED,
            endpoints.list_skills,
            "The skills in order, and the problems of their files.",
            operation_id="list_skills",
            response_type=SkillsView,
            section=SECTION,
        ),
        Route(
            "GET",
            "/api/skills/read/{name}",
            RouteGroup.EXTENDED,
            endpoints.read_skill,
            "A skill with its text.",
            response_type=SkillTextView,
            errors=(NotFound,),
            section=SECTION,
        ),
        Route(
            "POST",
            "/api/skills/select",
            RouteGroup.EXTENDED,
            endpoints.select_skill,
            "Select a chat's skill, or without a chat the default skill.",
            request_type=SelectSkill,
            response_type=SelectedSkillView,
            errors=(BadRequest, NotFound, Conflict, Unavailable),
            section=SECTION,
        ),
    )


def _list_settings_routes(endpoints: SkillEndpoints) -> tuple[Route, ...]:
    return (
        Route(
            "GET",
            "/api/skills-settings",
            RouteGroup.EXTENDED,
            endpoints.get_skill_settings,
            "Order, colours and default of the skills.",
            operation_id="get_skill_settings",
            response_type=SkillSettingsView,
            section=SECTION,
        ),
        Route(
            "PUT",
            "/api/skills-settings",
            RouteGroup.EXTENDED,
            endpoints.change_skill_settings,
            "Change order, colours or default in skills.yml.",
            operation_id="change_skill_settings",
            request_type=ArrangeSkills,
            response_type=SkillSettingsView,
            errors=(BadRequest, NotFound, Conflict, Unavailable),
            section=SECTION,
        ),
    )
