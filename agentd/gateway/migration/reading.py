"""Recognizes the configurations of other gateways by their content, and maps them."""

import json
from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import structs

from agentd.core.errors import BadRequest
from agentd.gateway.migration.litellm import map_litellm
from agentd.gateway.migration.new_api import find_rows, map_new_api
from agentd.gateway.migration.new_api_accounts import find_account_rows, map_new_api_accounts
from agentd.gateway.migration.plan import ConfigSource, ImportPlan, Leftover
from agentd.storage.yaml.untrusted import parse_untrusted_yaml_with_lines

Origin: TypeAlias = Literal["litellm", "new-api"]


def map_configuration(
    name: str, text: str, origin: Origin | None, environ: Mapping[str, str] | None
) -> ImportPlan:
    """Map the text of a configuration. Blocking: a large one takes a second.

    ``name`` is the file's in messages; ``origin`` is found by the content if it is ``None``;
    ``environ`` has what references to variables stand for, ``None``: they are not looked up.
    Raises ``BadRequest`` for what is no such configuration.
    """
    if origin != "litellm":
        parsed = _parse_json(text)
        if (rows := find_rows(parsed)) is not None:
            return _tell_missing(map_new_api(ConfigSource(name, rows)), name, parsed, len(rows))
        if (accounts := find_account_rows(parsed)) is not None:
            plan = map_new_api_accounts(ConfigSource(name, accounts))
            return _tell_missing(plan, name, parsed, len(accounts))
        if origin == "new-api":
            raise BadRequest(
                f"{name} is no list of channels, users or tokens as JSON",
                "Expected what GET /api/channel/ of new-api returns, or the rows of its table.",
            )
    content, lines = parse_untrusted_yaml_with_lines(text)
    if not (isinstance(content, dict) and "model_list" in content):
        raise BadRequest(
            f"{name} is neither a LiteLLM configuration nor an export of new-api's channels",
            "Expected model_list, or a list of channels as JSON.",
        )
    return map_litellm(ConfigSource(name, content, lines), environ)


def _tell_missing(plan: ImportPlan, name: str, content: object, count: int) -> ImportPlan:
    """Return the plan with what a page of a longer list does not have: new-api returns pages."""
    page = content.get("data", content) if isinstance(content, dict) else None
    total = page.get("total") if isinstance(page, dict) else None
    if not (isinstance(total, int) and total > count):
        return plan
    why = f"is a page with {count} of {total} entries; ask for all with ?page_size={total}"
    why = f"{why}, or put the items of all pages (?p=2) into one list"
    return structs.replace(plan, leftovers=(Leftover(f"{name}: the file", why), *plan.leftovers))


def _parse_json(text: str) -> object:
    """Return a JSON value, or a list of those of each line; None if the text is neither."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError):
        return None
