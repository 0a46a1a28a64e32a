"""The rows below ``/api/bots``: by login, for administrators."""

from agentd.access.gate import Role, Surface
from agentd.errors import BadRequest, Conflict, NotFound, Unavailable
from agentd.web import bots as shapes
from agentd.web.bots import BotDesk
from agentd.web.table import Route


def rows(desk: BotDesk) -> tuple[Route, ...]:
    """List, show, create, change (also on and off) and delete."""
    door = Surface.EXTENDED
    role: Role = "administrator"
    section = "4, extended surface"
    trouble = (BadRequest, Conflict, Unavailable)
    return (
        Route(
            "GET",
            "/api/bots",
            door,
            desk.list_bots,
            "The messenger bots as they are configured, tokens masked.",
            gives=shapes.BotSettingsList,
            section=section,
            role=role,
        ),
        Route(
            "POST",
            "/api/bots",
            door,
            desk.add_bot,
            "Configure one more bot; it runs at once when it is enabled.",
            takes=shapes.AddBot,
            gives=shapes.BotSettingsView,
            status=201,
            errors=trouble,
            section=section,
            role=role,
        ),
        Route(
            "GET",
            "/api/bots/{botId}",
            door,
            desk.one_bot,
            "One bot as it is configured, its token masked.",
            operation="get_bot",
            gives=shapes.BotSettingsView,
            errors=(NotFound,),
            section=section,
            role=role,
        ),
        Route(
            "PUT",
            "/api/bots/{botId}",
            door,
            desk.change_bot,
            "Change a bot, or switch it on or off; it begins anew with that.",
            takes=shapes.ChangeBot,
            gives=shapes.BotSettingsView,
            errors=(*trouble, NotFound),
            section=section,
            role=role,
        ),
        Route(
            "DELETE",
            "/api/bots/{botId}",
            door,
            desk.remove_bot,
            "Delete a bot; its chats stay.",
            status=204,
            errors=(*trouble, NotFound),
            section=section,
            role=role,
        ),
    )
