"""Request features with a price of their own, beside the usual price per token.

These are service tiers, tools that the supplier itself runs for a fee per use, and audio. None is
translated: only a supplier of the caller's dialect is asked for them.
"""

import re
from collections.abc import Mapping
from typing import Any

from agentd.llm.endpoint import ChannelDialect

PRICE_FIELDS: Mapping[ChannelDialect, Mapping[str, tuple[object, ...]]] = {
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

MAX_SERVICE_LENGTH = 100
"""Characters of the name of a kind of service."""

_PAID_TOOLS = (
    "web_search",
    "file_search",
    "code_interpreter",
    "image_generation",
    "code_execution",
)
"""The prefixes of the types of such tools; many end with a date."""
_PAID_GOOGLE_TOOLS = ("googleSearch", "googleMaps", "enterpriseWebSearch", "fileSearch")

mentions_paid_tools = re.compile(
    rb'"type"\s*:\s*"(?:(?:web_search|file_search|code_interpreter|image_generation)_call'
    rb'|server_tool_use|url_citation)"|"groundingMetadata"\s*:\s*\{'
).search
"""True if a response reports, in any dialect, that a supplier's own tool was used."""


_AUDIO_WORDS = (b'"input_audio"', b'"audio/')
_find_audio = re.compile(rb'"type"\s*:\s*"input_audio"|"mime_?[tT]ype"\s*:\s*"audio/').search


def has_audio(body: bytes) -> bool:
    """Return whether a request has audio, whose tokens cost more than those of its text."""
    return any(word in body for word in _AUDIO_WORDS) and bool(_find_audio(body))


def name_service(dialect: ChannelDialect, asked: object) -> str:
    """Return the service tier that a request asks for; empty for the usual one.

    A tier is named by itself, such as ``flex``, other fields with their value, such as
    ``speed:fast``; several are joined by commas.
    """
    found = []
    for field, usual in PRICE_FIELDS[dialect].items():
        value = getattr(asked, field, None)
        if value is not None and value not in usual:
            rendered = "+".join(map(str, value)) if isinstance(value, list) else str(value)
            found.append(rendered if field == "service_tier" else f"{field}:{rendered}")
    return ",".join(found)[:MAX_SERVICE_LENGTH]


def offers_paid_tools(tools: object) -> bool:
    """Return whether supplier-run tools are offered, judged by their ``type`` or name."""
    return isinstance(tools, list) and any(map(_is_paid, tools))


def _is_paid(tool: Any) -> bool:
    if not isinstance(tool, dict):
        return False
    kind = tool.get("type")
    return kind.startswith(_PAID_TOOLS) if isinstance(kind, str) else _is_paid_by_google(tool)


def _is_paid_by_google(tool: dict[str, Any]) -> bool:
    return any(name.startswith(_PAID_GOOGLE_TOOLS) for name in tool)
