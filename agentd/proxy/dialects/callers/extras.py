"""What a request may ask for at a price of its own, beside its tokens at their usual one.

That is another tier of service, and tools that the supplier itself runs for a fee for each use.
Only a supplier of the caller's dialect is asked for either: neither is translated.
"""

import re
from typing import Any

_USUAL = ("auto", "default", "standard", "standard_only", "SERVICE_TIER_UNSPECIFIED")

_SERVED = ("web_search", "file_search", "code_interpreter", "image_generation", "code_execution")
"""How the types of such tools begin; many end with a date."""
_SERVED_BY_GOOGLE = ("googleSearch", "googleMaps", "enterpriseWebSearch", "fileSearch")

used = re.compile(
    rb'"type"\s*:\s*"(?:(?:web_search|file_search|code_interpreter|image_generation)_call'
    rb'|server_tool_use|url_citation)"|"groundingMetadata"\s*:\s*\{'
).search
"""Whether an answer tells, in any dialect, that a supplier's own tool was used."""


def tier(told: object) -> str:
    """The tier of service that is asked for; empty for the usual one, and where any will do."""
    return "" if told is None or told in _USUAL else str(told)[:40]


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
