"""Google's Gemini, as callers speak it; see ``caller.CallerDialect``."""

from functools import partial

from agentd.proxy.dialects.callers import errors
from agentd.proxy.dialects.callers.asked_gemini import glance, passed_on, understood
from agentd.proxy.dialects.callers.taps import counted
from agentd.proxy.dialects.callers.taps import pieces as tap
from agentd.proxy.dialects.callers.told_gemini import Writer, whole
from agentd.proxy.price import Usage, from_gemini

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
error = partial(errors.error, "gemini")
error_event = partial(errors.error_event, "gemini")


def usage(body: bytes) -> Usage | None:
    """As ``CallerDialect.usage``."""
    return counted(body, from_gemini)
