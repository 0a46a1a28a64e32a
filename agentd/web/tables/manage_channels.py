"""The rows below ``/api/agent/channels``."""

from agentd.errors import BadRequest, NotFound, Unavailable
from agentd.web.manage import channels as shapes
from agentd.web.manage.channels import ChannelDesk
from agentd.web.manage.checks import MODEL, PAID, CheckView
from agentd.web.manage.resource import CopyTo
from agentd.web.table import Route
from agentd.web.tables import manage_rows

_ALL = "/api/agent/channels"
_ONE = f"{_ALL}/{{name}}"


def rows(desk: ChannelDesk) -> tuple[Route, ...]:
    """List, show, create, change, copy, enable, disable, check, delete."""
    return (
        manage_rows.many(
            _ALL,
            desk.list_channels,
            "The channels, secrets masked, in the order of their names.",
            shapes.ChannelPage,
        ),
        manage_rows.create(
            _ALL,
            desk.add_channel,
            "Create a channel; requests can go through it at once.",
            shapes.NewChannel,
            shapes.ChannelView,
            {
                "name": "openai",
                "dialects": ["openai-responses", "openai-chat"],
                "url": "https://api.openai.com/v1",
                "key": "sk-0123456789abcdef",
            },
        ),
        manage_rows.one(
            _ONE,
            desk.one_channel,
            "One channel, its secrets masked.",
            shapes.ChannelView,
            "get_channel",
        ),
        manage_rows.change(
            _ONE,
            desk.change_channel,
            "Change a channel: what is absent stays, null is the default. A masked secret stands"
            " for the one that is there. With another url there is none until it is written anew,"
            " and a masked one is refused.",
            shapes.ChannelPatch,
            shapes.ChannelView,
            {"timeout": 120, "coolDown": None},
        ),
        manage_rows.delete(
            _ONE, desk.remove_channel, "Delete a channel, unless a model or key needs it."
        ),
        manage_rows.row(
            "POST",
            f"{_ONE}/check",
            endpoint=desk.check_channel,
            summary="Try a channel step by step, its own way: name, connection, TLS, sign-in by its"
            " list of models, and only with paid=true one small request.",
            gives=CheckView,
            errors=(BadRequest, NotFound, Unavailable),
            parameters=(PAID, MODEL),
        ),
        manage_rows.create(
            f"{_ONE}/copy",
            desk.copy_channel,
            "Copy a channel, its secrets too, under another name.",
            CopyTo,
            shapes.ChannelView,
            {"name": "openai-2"},
        ),
        manage_rows.switch(
            f"{_ONE}/enable",
            desk.enable_channel,
            "Let requests go through a channel again.",
            shapes.ChannelView,
        ),
        manage_rows.switch(
            f"{_ONE}/disable",
            desk.disable_channel,
            "Let no request go through a channel.",
            shapes.ChannelView,
        ),
    )
