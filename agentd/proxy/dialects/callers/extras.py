"""What a request may ask for at a price of its own, beside its tokens at their usual one.

That is another kind of service, and tools that the supplier itself runs for a fee for each use.
Only a supplier of the caller's dialect is asked for either: neither is translated.
"""

import re
from collections.abc import Mapping
from typing import Any

from agentd.proxy.channel import ChannelDialect

PRICED: Mapping[ChannelDialect, Mapping[str, tuple[object, ...]]] = {
    "openai-chat": {"service_tier": ("auto", "default"), "modalities": (["text"], [])},
    "openai-responses": {"service_tier": ("auto", "default")},
    "anthropic": {
        "service_tier": ("auto", "standard_only"),
        "speed": ("standard",),
        "inference_geo": ("global",),
    },
    "gemini": {
        "service_tier": ("standard", "SERVICE_TIER_UNSPECIFIED"),
        "response_modalities": (["TEXT"], []),
    },
}
"""The fields of each dialect that change the price of a token, and their values at which it is the
usual one. Any other value needs rates of its own in the model's ``services``."""

LONGEST_SERVICE = 100
"""Characters of the name of a kind of service."""

_SERVED = ("web_search", "file_search", "code_interpreter", "image_generation", "code_execution")
"""How the types of such tools begin; many end with a date."""
_SERVED_BY_GOOGLE = ("googleSearch", "googleMaps", "enterpriseWebSearch", "fileSearch")

used = re.compile(
    rb'"type"\s*:\s*"(?:(?:web_search|file_search|code_interpreter|image_generation)_call'
    rb'|server_tool_use|url_citation)"|"groundingMetadata"\s*:\s*\{'
).search
"""Whether an answer tells, in any dialect, that a supplier's own tool was used."""


def service(dialect: ChannelDialect, asked: object) -> str:
    """Name the kind of service that a glanced request asks for; empty for the usual one.

    A tier by its own name, such as ``flex``, anything else after its field, such as ``speed:fast``;
    several with a comma between them.
    """
    found = []
    for field, usual in PRICED[dialect].items():
        value = getattr(asked, field, None)
        if value is not None and value not in usual:
            told = "+".join(map(str, value)) if isinstance(value, list) else str(value)
            found.append(told if field == "service_tier" else f"{field}:{told}")
    return ",".join(found)[:LONGEST_SERVICE]


def serves(tools: object) -> bool:
    """Whether the supplier's own tools are among those on offer, by their ``type`` or name."""
    return isinstance(tools, list) and any(map(_is_served, tools))


def _is_served(tool: Any) -> bool:
    if not isinstance(tool, dict):
        return False
    kind = tool.get("type")
    return kind.startswith(_SERVED) if isinstance(kind, str) else _by_google(tool)


def _by_google(tool: dict[str, Any]) -> bool:
    return any(name.startswith(_SERVED_BY_GOOGLE) for name in tool)
