"""The row ``/api/agent/channels/preview``."""

from agentd.errors import BadRequest, Unavailable
from agentd.web.manage.preview import REQUEST_LIMIT, ChannelPreview, PreviewDesk, PreviewWish
from agentd.web.table import Route
from agentd.web.tables.manage_rows import row


def rows(desk: PreviewDesk) -> tuple[Route, ...]:
    """Preview."""
    return (
        row(
            "POST",
            "/api/agent/channels/preview",
            endpoint=desk.preview_channel,
            summary="The servers behind a VPN's link or subscription, its traffic left and expiry.",
            takes=PreviewWish,
            example={"link": "ss://YWVzLTI1Ni1nY206cGFzc3dvcmQ@vpn.example.org:8388#Paris"},
            gives=ChannelPreview,
            errors=(BadRequest, Unavailable),
            most=REQUEST_LIMIT,
        ),
    )
