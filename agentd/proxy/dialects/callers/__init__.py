"""The languages of the gateway's callers."""

from collections.abc import Mapping

from agentd.proxy.channel import ChannelDialect
from agentd.proxy.dialects.caller import CallerDialect
from agentd.proxy.dialects.callers import anthropic, gemini, openai_chat, openai_responses

CALLERS: Mapping[ChannelDialect, CallerDialect] = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic,
    "gemini": gemini,
}
"""Every dialect by its name, as it stands in a channel's ``dialects``."""
