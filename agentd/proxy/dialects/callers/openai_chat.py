"""OpenAI's chat completions, as callers speak them; see ``caller.CallerDialect``."""

from functools import partial

from agentd.proxy.dialects.callers import errors
from agentd.proxy.dialects.callers.asked_chat import glance, passed_on, understood
from agentd.proxy.dialects.callers.taps import chat as tap
from agentd.proxy.dialects.callers.taps import counted
from agentd.proxy.dialects.callers.told_chat import Writer, whole
from agentd.proxy.price import Usage, from_openai_chat

__all__ = [
    "error",
    "error_event",
    "glance",
    "passed_on",
    "tap",
    "understood",
    "usage",
    "whole",
    "writer",
]

writer = Writer
error = partial(errors.error, "openai-chat")
error_event = partial(errors.error_event, "openai-chat")


def usage(body: bytes) -> Usage | None:
    """As ``CallerDialect.usage``."""
    return counted(body, from_openai_chat)
