"""Every field that ``/api/agent`` takes is in a form of the browser, or has a reason not to be."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from agentd.gateway.admin.api.alerts import AlertTargetEndpoints
from agentd.gateway.admin.api.budgets import BudgetEndpoints
from agentd.gateway.admin.api.channels import ChannelEndpoints
from agentd.gateway.admin.api.keys import AccessKeyEndpoints
from agentd.gateway.admin.api.limit_views import KeyRaiseRequest, RaiseRequest
from agentd.gateway.admin.api.management_keys import ManagementKeyEndpoints
from agentd.gateway.admin.api.models import ProxyModelEndpoints
from agentd.gateway.admin.api.secret_rules import SecretRuleEndpoints
from agentd.gateway.admin.api.settings import SettingsPatch
from agentd.ui.assets import STATIC_FOLDER

FORMS: dict[Any, tuple[str, ...]] = {
    AccessKeyEndpoints: ("key_dialogs", "limits"),
    BudgetEndpoints: ("budgets", "limits"),
    ChannelEndpoints: ("channel_dialogs",),
    ProxyModelEndpoints: ("models", "price_fields"),
    SecretRuleEndpoints: ("secrets",),
    AlertTargetEndpoints: ("alerts",),
    ManagementKeyEndpoints: ("management_keys",),
}
"""The modules with the forms of each resource."""

TYPES: dict[str, tuple[Any, tuple[str, ...]]] = {
    kind.__name__: (kind, modules)
    for endpoints, modules in FORMS.items()
    for kind in (endpoints.types.new, endpoints.types.patch)
} | {
    "ModelRoute": (ProxyModelEndpoints.types.new, ("route_list", "price_fields")),
    "SettingsPatch": (SettingsPatch, ("settings",)),
}

ROUTE_FIELDS = "routes"

ELSEWHERE = {
    "enabled": "the menu of each row enables and disables",
    "routes.priority": "the order of the list of routes",
    "routes.weight": "a field of each route in the list",
}
"""Where a field is changed that is in no form."""

NOT_IN_FORMS = {
    "assumed_prices.above": "a rough estimate needs no tiers",
    "assumed_prices.services": "a rough estimate needs no tiers",
}
"""Why a field is in no form."""

WHOLE = ("json", "pairs", "lines", "set")
"""Kinds of fields that hold all that is below them."""


def list_leaves(schema: Any, defined: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield the paths of what is written into a value: the fields of all objects in it."""
    for kind in ("anyOf", "allOf"):
        for one in schema.get(kind, ()):
            yield from list_leaves(one, defined, path)
    if "$ref" in schema:
        yield from list_leaves(defined[schema["$ref"].rpartition("/")[2]], defined, path)
    elif "properties" in schema:
        for name, one in schema["properties"].items():
            if not one.get("description", "").startswith("Read-only"):
                yield from list_leaves(one, defined, f"{path}.{name}".removeprefix("."))
    elif "items" in schema and "type" not in schema["items"]:
        yield from list_leaves(schema["items"], defined, path)
    elif isinstance(schema.get("additionalProperties"), dict) and path:
        yield path
        yield from list_leaves(schema["additionalProperties"], defined, path)
    elif path and schema.get("type") != "null" and not {"anyOf", "allOf"} & schema.keys():
        yield path


def list_paths(kind: Any) -> set[str]:
    (schema,), defined = msgspec.json.schema_components([kind], ref_template="#/{name}")
    return set(list_leaves(schema, defined))


def read_fields(modules: tuple[str, ...]) -> dict[str, str]:
    """Return the kinds of the fields and columns that modules declare, by name."""
    texts = [(STATIC_FOLDER / "gateway" / f"{name}.js").read_text() for name in modules]
    found = re.findall(r'\{ name: "([\w.]+)",(?=([^}]*))', "\n".join(texts).replace("{\n ", "{"))
    kinds = {name: (re.findall(r'kind: "(\w+)"', rest) or ["text"])[0] for name, rest in found}
    return kinds | dict.fromkeys(list_rate_fields("\n".join(texts)), "money")


def list_rate_fields(text: str) -> Iterator[str]:
    """Yield the fields and columns of rates, which ``price_fields.js`` makes of a table."""
    table = (STATIC_FOLDER / "gateway" / "price_fields.js").read_text()
    rates = re.findall(r'\["(\w+)", "(\w+)", "', table)
    assert len(rates) == 6
    for of_model, of_settings in rates:
        if 'rateFields("prices"' in text:
            yield from (of_model, f"prices.{of_model}")
        if 'rateFields("assumed_prices"' in text:
            yield f"assumed_prices.{of_settings}"


def is_in_form(path: str, fields: dict[str, str]) -> bool:
    """Return whether a field has the path, or one above it that holds or lists all below."""
    if path in fields:
        return True
    parts = path.split(".")
    for end in range(1, len(parts)):
        kind = fields.get(".".join(parts[:end]))
        if kind in WHOLE or (kind == "rows" and ".".join(parts[end:]) in fields):
            return True
    return False


@pytest.mark.parametrize("name", TYPES)
def test_every_field_is_in_a_form_or_has_a_reason(name: str) -> None:
    kind, modules = TYPES[name]
    fields, paths = read_fields(modules), list_paths(kind)
    assert paths
    if name == "ModelRoute":
        prefix = f"{ROUTE_FIELDS}."
        paths = {path.removeprefix(prefix) for path in paths if path.startswith(prefix)}
        paths -= {one.removeprefix(prefix) for one in ELSEWHERE}
    else:
        paths = {path for path in paths if path.split(".")[0] != ROUTE_FIELDS}
    reasons = tuple({*ELSEWHERE, *NOT_IN_FORMS})
    assert not [one for one in paths if not (is_in_form(one, fields) or one.startswith(reasons))]


def test_every_reason_is_about_a_field_that_is_in_no_form() -> None:
    known = {path for kind, _ in TYPES.values() for path in list_paths(kind)}
    for reason in (*ELSEWHERE, *NOT_IN_FORMS):
        assert any(path.startswith(reason) for path in known), reason
    settings = read_fields(("settings",))
    assert not [path for path in NOT_IN_FORMS if is_in_form(path, settings)]


def test_raises_offer_each_limit() -> None:
    fields = {name for name in read_fields(("limits",)) if name.startswith("limits.")}
    assert fields == list_paths(RaiseRequest) - {"until"}
    of_models = {f"models.{name.removeprefix('limits.')}" for name in fields}
    assert list_paths(KeyRaiseRequest) - {"until", "models"} == fields | of_models
