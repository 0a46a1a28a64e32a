"""The channels of a new-api instance: what ``GET /api/channel/`` returns, or rows of its table."""

import json
from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from agentd.gateway.migration.plan import (
    ChannelDrafts,
    ConfigSource,
    Fields,
    ImportPlan,
    Report,
    is_model_name,
    scale_weights,
)
from agentd.gateway.migration.suppliers import (
    AZURE,
    NEW_API_PATHS,
    NEW_API_TYPES,
    OPENAI,
    KnownSupplier,
)
from agentd.llm.parameters import ParameterChanges, validate_parameters
from agentd.models.gateway_model import GatewayModel, ModelRoute

_ENABLED = 1
_STATE = (
    *("id", "created_time", "test_time", "response_time", "balance", "balance_updated_time"),
    *("used_quota", "other_info", "auto_ban", "test_model", "need_reconcile", "remark"),
)
"""Fields that describe the past of a channel, or that agentd needs no counterpart of."""
_REASONS = {
    "group": "callers have no groups; an access key can be limited to channels and models",
    "tag": "channels have no tags",
    "status_code_mapping": "agentd keeps suppliers' statuses",
    "settings": "agentd has no such settings of a channel",
    "other": "agentd has no such setting of a channel",
}
_NO_FIELD = "agentd has no such field"


class _Offer(NamedTuple):
    """A model through one channel."""

    channel: str
    model: str
    priority: Decimal
    weight: Decimal


def map_new_api(source: ConfigSource) -> ImportPlan:
    """Map an export of new-api's channels."""
    return _NewApiMapper(source).map_all()


def find_rows(content: object) -> list[Any] | None:
    """Return the channels of an export; None if it is none."""
    return find_rows_with(content, {"type", "models"})


def find_rows_with(content: object, fields: Collection[str]) -> list[Any] | None:
    """Return the rows of an export if all of them have these fields; else None."""
    for _ in range(3):  # {"data": {"items": [...]}}
        if isinstance(content, dict):
            content = next(
                (content[name] for name in ("data", "items", "channels") if name in content), None
            )
    if not (isinstance(content, list) and content):
        return None
    is_export = all(isinstance(one, dict) and set(fields) <= one.keys() for one in content)
    return content if is_export else None


class _NewApiMapper:
    """Maps one export."""

    def __init__(self, source: ConfigSource) -> None:
        self._report = Report(source)
        self._channels = ChannelDrafts(self._report, merge=False)
        self._models: dict[str, list[_Offer]] = {}

    def map_all(self) -> ImportPlan:
        """Return the plan."""
        rows = find_rows(self._report.source.content)
        if rows is None:
            self._report.leave((), "is no list of channels of new-api")
        self._report.require_few((), rows or ())
        for number, row in enumerate(rows or ()):
            self._add_row(self._report.fields((number,), row))
        if self._models:
            self._report.note("An export of channels has no prices.")
        return ImportPlan(
            channels=self._channels.channels,
            models=tuple(self._build_models()),
            leftovers=tuple(self._report.leftovers),
            notes=tuple(self._report.notes),
        )

    def _add_row(self, row: Fields) -> None:
        kind = row.take("type")
        label, supplier = NEW_API_TYPES.get(kind if isinstance(kind, int) else -1, ("", None))
        if supplier is None:
            row.leave("type", "channels of this type have no dialect that agentd speaks")
            return
        url = self._take_url(row, kind, supplier)
        if not url:
            row.leave("base_url", "is missing, and this type has no usual address")
            return
        fields: dict[str, Any] = {
            "dialects": supplier.dialects,
            "url": url,
            "enabled": row.take("status") == _ENABLED,
        }
        if supplier is OPENAI and url != OPENAI.url:
            fields["dialects"] = ("openai-chat",)
        self._take_keys(row, supplier, fields)
        self._take_request_changes(row, fields)
        self._take_setting(row, fields)
        models, names = row.take_text("models"), self._take_mapping(row)
        priority = self._take_signed(row, "priority")
        weight = row.take_number("weight") or Decimal(0)
        channel = self._channels.add(row.path, row.take_text("name") or label, **fields)
        if row.take("group") not in (None, "", "default"):
            row.leave("group", _REASONS["group"])
        row.ignore(*_STATE)
        row.ignore_empty()
        row.leave_rest(_NO_FIELD, _REASONS)
        for model in dict.fromkeys(one.strip() for one in models.split(",") if channel):
            if is_model_name(model):
                offer = _Offer(channel, names.get(model, model)[:200], priority, weight)
                self._models.setdefault(model, []).append(offer)
            elif model:
                row.leave("models", f'"{model[:80]}" is no name that callers of agentd can use')

    def _take_url(self, row: Fields, kind: Any, supplier: KnownSupplier) -> str:
        url = row.take_text("base_url").rstrip("/")
        for ending in ("/chat/completions", "/responses", "/v1/messages"):
            url = url.removesuffix(ending)
        if not url:
            return supplier.url
        if supplier is AZURE and "/openai/" not in url:
            self._report.note("Azure is reached through its v1 API, without an API version.")
            return f"{url}/openai/v1"
        if url == OPENAI.url.removesuffix("/v1"):
            return OPENAI.url
        path = NEW_API_PATHS.get(kind, "")
        return url if path and url.endswith(path) else url + path

    def _take_keys(self, row: Fields, supplier: KnownSupplier, fields: dict[str, Any]) -> None:
        """Take the keys, one a line, also where ``is_multi_key`` is not set.

        Rows of older versions lack it, and a key with a line break could not be sent.
        """
        info = self._parse_object(row, "channel_info")
        states = info.get("multi_key_status_list")
        states = states if isinstance(states, dict) else {}
        text = row.take_text("key")
        keys = text.strip("\n").split("\n")  # as new-api numbers them in their states
        if text.startswith(("[", "{")):
            row.leave("key", "is a document of credentials, which agentd cannot use")
            keys = []
        usable = [
            key.strip()
            for number, key in enumerate(keys)
            if key.strip() and states.get(str(number), _ENABLED) == _ENABLED
        ]
        if len(usable) < len([key for key in keys if key.strip()]):
            row.leave("channel_info", "keys that were disabled are not taken")
        fields["key"], *further = list(dict.fromkeys(usable)) or [""]
        if further:
            fields["keys"] = tuple(further[:50])
        if len(further) > 50:
            row.leave("key", "a channel has at most 51 keys")
        if not usable and supplier.variable and fields["enabled"]:
            fields["enabled"] = False
            row.leave("key", "is not part of this export; the channel is made disabled, without it")

    def _take_request_changes(self, row: Fields, fields: dict[str, Any]) -> None:
        headers = {}
        if organization := row.take_text("openai_organization"):
            headers["OpenAI-Organization"] = organization
        for name, value in self._parse_object(row, "header_override").items():
            if isinstance(value, str) and "{" not in value and name not in ("*",):
                headers[name] = value
            else:
                row.leave("header_override", f'"{name[:80]}" is not a plain header')
        if headers:
            fields["headers"] = headers
        given = self._parse_object(row, "param_override")
        if "operations" in given:
            row.leave("param_override", "operations with conditions have no counterpart")
            return
        changes = {}
        for name, value in given.items():
            try:
                one = ParameterChanges(set={name: value})
                problem = next((what for _, what in validate_parameters(one)), "")
            except ValueError:
                problem = "is null or an empty list"
            if problem:
                row.leave("param_override", f'"{name[:80]}" {problem}')
            else:
                changes[name] = value
        if changes:
            fields["parameters"] = {"set": changes}

    def _take_setting(self, row: Fields, fields: dict[str, Any]) -> None:
        for name, value in self._parse_object(row, "setting").items():
            if name == "proxy" and isinstance(value, str) and value:
                kind = "socks5" if value.startswith("socks5") else "http"
                fields["transport"] = {"kind": kind, "url": value.replace("socks5h:", "socks5:")}
            elif value not in (None, "", False):
                row.leave("setting", f'"{name[:80]}" has no counterpart')

    def _take_mapping(self, row: Fields) -> Mapping[str, str]:
        mapping = self._parse_object(row, "model_mapping")
        return {name: to for name, to in mapping.items() if isinstance(to, str) and to}

    def _take_signed(self, row: Fields, name: str) -> Decimal:
        value = row.take(name)
        return Decimal(value) if isinstance(value, int) else Decimal(0)

    def _parse_object(self, row: Fields, name: str) -> dict[str, Any]:
        """Take a map, or the text of one, as columns of the table hold it."""
        value = row.take(name)
        if isinstance(value, str) and value.strip():
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                row.leave(name, "is not JSON")
                return {}
        if value not in (None, "") and not isinstance(value, dict):
            row.leave(name, "expected an object")
        return value if isinstance(value, dict) else {}

    def _build_models(self) -> Iterator[GatewayModel]:
        for name, offers in self._models.items():
            priorities = sorted({one.priority for one in offers}, reverse=True)
            weights = scale_weights([one.weight for one in offers])
            yield GatewayModel(
                name=name,
                routes=tuple(
                    ModelRoute(
                        channel=one.channel,
                        model="" if one.model == name else one.model,
                        priority=min(priorities.index(one.priority), 1000),
                        weight=max(weight, 1),
                    )
                    for one, weight in zip(offers, weights, strict=True)
                ),
            )
