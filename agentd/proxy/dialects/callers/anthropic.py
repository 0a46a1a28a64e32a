"""Anthropic's messages, as callers speak them; see ``caller.CallerDialect``."""

from functools import partial

from agentd.proxy.dialects.callers import errors
from agentd.proxy.dialects.callers.asked_anthropic import glance, passed_on, understood
from agentd.proxy.dialects.callers.taps import counted
from agentd.proxy.dialects.callers.taps import messages as tap
from agentd.proxy.dialects.callers.told_anthropic import Writer, whole
from agentd.proxy.price import Usage, from_anthropic

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
error = partial(errors.error, "anthropic")
error_event = partial(errors.error_event, "anthropic")


def usage(body: bytes) -> Usage | None:
    """As ``CallerDialect.usage``."""
    return counted(body, from_anthropic)
