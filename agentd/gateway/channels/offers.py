"""Asks a channel's supplier for its own list of models."""

import asyncio

from agentd.core.errors import AgentdError, Unavailable
from agentd.core.redaction import escape_unprintable, mask_values, scrub
from agentd.gateway.channels.check import Reach
from agentd.gateway.channels.masking import list_sent_secrets
from agentd.gateway.channels.model import Channel
from agentd.llm.upstream.models_list import OfferedModels, fetch_offered_models

SECONDS = 30.0
"""The most that all pages of a list may take together."""

_MAX_REASON_CHARS = 500


async def list_offered_models(reach: Reach, channel: Channel) -> OfferedModels:
    """Ask a channel's supplier for its models, the way that requests go.

    Raises ``Unavailable`` with the reason, which never holds the channel's key.
    """
    key = ""
    try:
        async with asyncio.timeout(SECONDS):
            upstream, key = await reach(channel, channel.key_fields[0])
            return await fetch_offered_models(
                upstream, channel.dialects[0], channel.url, key, channel.headers
            )
    except TimeoutError as error:
        raise _make_error(channel, f"it takes longer than {SECONDS:g} s") from error
    except AgentdError as error:
        reason = mask_values(error.message, list_sent_secrets(channel, key))
        raise _make_error(channel, reason) from error


def _make_error(channel: Channel, reason: str) -> Unavailable:
    shown = escape_unprintable(scrub(reason))[:_MAX_REASON_CHARS]
    return Unavailable(
        f'The models of channel "{channel.name}" cannot be listed: {shown}',
        "The check of the channel shows which step fails.",
    )
