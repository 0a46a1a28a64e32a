"""The rows below ``/api/agent/channels``."""

from functools import partial

from agentd.access.gate import Surface
from agentd.errors import BadRequest, NotFound
from agentd.web.manage import channels as shapes
from agentd.web.manage.channels import ChannelDesk
from agentd.web.manage.listing import PAGING
from agentd.web.table import Route

_ALL = "/api/agent/channels"
_ONE = f"{_ALL}/{{name}}"


def rows(desk: ChannelDesk) -> tuple[Route, ...]:
    """List, show, create, change, copy, enable, disable, check, delete."""
    row = partial(Route, surface=Surface.MANAGE, section="2")
    return (
        row(
            "GET",
            _ALL,
            endpoint=desk.list_channels,
            summary="The channels, secrets masked, in the order of their names.",
            gives=shapes.ChannelPage,
            errors=(BadRequest,),
            parameters=PAGING,
        ),
        row(
            "GET",
            _ONE,
            endpoint=desk.one_channel,
            summary="One channel, its secrets masked.",
            gives=shapes.ChannelView,
            errors=(NotFound,),
        ),
    )
