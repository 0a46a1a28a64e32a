"""The rows of settings, skills and models."""

from agentd.access.gate import Surface
from agentd.catalog.standing import SettingsView
from agentd.errors import BadRequest, Conflict, Forbidden, NotFound, Unavailable
from agentd.web import models as model_shapes
from agentd.web import skills as skill_shapes
from agentd.web.catalog_views import SkillsView
from agentd.web.models import ModelDesk
from agentd.web.settings import SetSettings, SettingsDesk
from agentd.web.skills import SkillDesk
from agentd.web.table import Route

_DOOR = Surface.EXTENDED
_RULED = "4, extended surface"


def rows(settings: SettingsDesk, skills: SkillDesk, models: ModelDesk) -> tuple[Route, ...]:
    """Look, choose, arrange."""
    return (*_settings(settings), *_skills(skills), *_looks(skills), *_models(models))


def _settings(desk: SettingsDesk) -> tuple[Route, ...]:
    return (
        Route(
            "GET",
            "/api/settings/all",
            _DOOR,
            desk.all_settings,
            "Every setting, its source and what waits for a restart; mistakes of all files.",
            operation="list_settings",
            gives=SettingsView,
            section=_RULED,
        ),
        Route(
            "POST",
            "/api/settings/set",
            _DOOR,
            desk.set_settings,
            "Change settings in agentd.yml, all or none; null takes one out of the file.",
            operation="change_settings",
            takes=SetSettings,
            gives=SettingsView,
            errors=(BadRequest, Forbidden, Conflict, Unavailable),
            section=_RULED,
        ),
    )


def _skills(desk: SkillDesk) -> tuple[Route, ...]:
    return (
        Route(
            "GET",
            "/api/skills",
            _DOOR,
            desk.skills,
            "The skills in their order, with what is wrong with any.",
            operation="list_skills",
            gives=SkillsView,
            section=_RULED,
        ),
        Route(
            "GET",
            "/api/skills/read/{name}",
            _DOOR,
            desk.read_skill,
            "A skill with its text.",
            gives=skill_shapes.SkillTextView,
            errors=(NotFound,),
            section=_RULED,
        ),
        Route(
            "POST",
            "/api/skills/select",
            _DOOR,
            desk.select_skill,
            "Choose a skill for a chat, or the one that is offered first.",
            takes=skill_shapes.SelectSkill,
            gives=skill_shapes.SelectedSkillView,
            errors=(BadRequest, NotFound, Conflict, Unavailable),
            section=_RULED,
        ),
    )


def _looks(desk: SkillDesk) -> tuple[Route, ...]:
    return (
        Route(
            "GET",
            "/api/skills-settings",
            _DOOR,
            desk.skill_looks,
            "Order, colours and default of the skills.",
            operation="get_skill_settings",
            gives=skill_shapes.SkillLooksView,
            section=_RULED,
        ),
        Route(
            "PUT",
            "/api/skills-settings",
            _DOOR,
            desk.arrange_skills,
            "Change order, colours or default in skills.yml.",
            operation="change_skill_settings",
            takes=skill_shapes.ArrangeSkills,
            gives=skill_shapes.SkillLooksView,
            errors=(BadRequest, NotFound, Conflict, Unavailable),
            section=_RULED,
        ),
    )


def _models(desk: ModelDesk) -> tuple[Route, ...]:
    return (
        Route(
            "GET",
            "/api/models",
            _DOOR,
            desk.models,
            "The models, what they cost and whether they can be used.",
            operation="list_models",
            gives=model_shapes.ModelsNowView,
            section=_RULED,
        ),
        Route(
            "POST",
            "/api/models/select",
            _DOOR,
            desk.select_model,
            "Choose a model for a chat, or for all chats that name none.",
            takes=model_shapes.SelectModel,
            gives=model_shapes.SelectedModelView,
            errors=(BadRequest, NotFound, Conflict, Unavailable),
            section=_RULED,
        ),
    )
