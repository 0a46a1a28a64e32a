"""The deployments of a LiteLLM configuration: one supplier's model each, with its channel."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from agentd.gateway.migration.litellm_parameters import take_parameters
from agentd.gateway.migration.plan import ChannelDrafts, ConfigPath, Fields, Report
from agentd.gateway.migration.suppliers import (
    AZURE,
    LITELLM_BARE_NAMES,
    LITELLM_PREFIXES,
    OPENAI,
    KnownSupplier,
)
from agentd.llm.price import MAX_DECIMALS, Prices, Tier, count_decimals

_REFERENCE = "os.environ/"
_ENDPOINTS = ("/chat/completions", "/responses", "/v1/messages")
_MODES = ("", "chat", "completion", "responses", "embedding")
_RATES = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cache_read",
    "cache_creation_input_token_cost": "cache_write",
    "cache_creation_input_token_cost_above_1hr": "cache_write_1h",
    "output_cost_per_reasoning_token": "reasoning",
}
_TIERS = (128_000, 200_000, 256_000, 272_000)
"""The sizes above which LiteLLM's fields have other prices."""
_REASONS = {
    "tags": "agentd routes by priority and weight; keys can be limited to channels",
    "max_retries": "tries of proxy.yml says how often a request is tried",
    "num_retries": "tries of proxy.yml says how often a request is tried",
    "max_parallel_requests": "parallel of an access key limits its calls",
    "stream_timeout": "idle_timeout of proxy.yml is the limit for all streams",
    "max_budget": "limits on models are those of a key: agentd proxy key change --model-limit",
    "budget_duration": "limits on models are those of a key, and of a day, a week or a month",
    "drop_params": "agentd drops or translates parameters by dialect",
}
NO_FIELD = "agentd has no such field; a parameter of requests can be set by parameters"
"""Why a field is left that nothing here corresponds to."""


class LiteLlmDeployment(NamedTuple):
    """One entry of ``model_list``, as far as it can be taken."""

    path: ConfigPath
    channel: str
    model: str
    """The supplier's name."""
    order: Decimal | None
    weights: Mapping[str, Decimal]
    prices: Prices | None
    max_output: int | None
    context: int | None


class LiteLlmDeploymentMapper:
    """Maps entries of ``model_list``; their channels are added to ``channels``.

    ``environ`` has what ``os.environ/NAME`` refers to, and ``credentials`` those that several
    deployments share, by name. ``unset`` says why a variable has no value.
    """

    def __init__(
        self,
        report: Report,
        channels: ChannelDrafts,
        environ: Mapping[str, str],
        credentials: Mapping[str, Fields],
        unset: str,
    ) -> None:
        self._report = report
        self._channels = channels
        self._environ = environ
        self._credentials = credentials
        self._unset = unset

    def map_entry(self, entry: Fields) -> LiteLlmDeployment | None:
        """Map an entry of ``model_list``; None if it cannot be taken."""
        parameters, info = entry.take_fields("litellm_params"), entry.take_fields("model_info")
        entry.leave_rest(NO_FIELD)
        mode = info.take_text("mode")
        if mode not in _MODES:
            info.leave("mode", "agentd serves chat, responses, messages and embeddings only")
            return None
        channel, model = self._add_channel(parameters)
        if not channel:
            return None
        deployment = LiteLlmDeployment(
            entry.path,
            channel,
            model,
            parameters.take_number("order"),
            {
                kind: number
                for kind in ("weight", "rpm", "tpm")
                if (number := parameters.take_number(kind)) is not None
            },
            self._take_prices(parameters, info),
            _to_size(info.take_number("max_output_tokens"), 1),
            _to_size(info.take_number("max_input_tokens"), 1000),
        )
        info.ignore("id", "db_model", "base_model", "max_tokens", "litellm_provider")
        info.leave_rest(NO_FIELD)
        parameters.leave_rest(NO_FIELD, _REASONS)
        return deployment

    def _add_channel(self, parameters: Fields) -> tuple[str, str]:
        """Add the channel of a deployment; return its name, and the supplier's of the model."""
        full = parameters.take_text("model")
        prefix, supplier, model = self._find_supplier(parameters, full)
        if supplier is None:
            parameters.leave("model", f'the supplier "{prefix[:40]}" is not known to agentd')
            return "", ""
        if len(model) > 200:
            parameters.leave("model", "is longer than 200 characters")
            return "", ""
        credentials = self._credentials.get(parameters.take_text("litellm_credential_name"))
        url = self._take_secret(parameters, "api_base", credentials).rstrip("/")
        url = url or self._take_secret(parameters, "base_url", credentials).rstrip("/")
        key, missing = self._take_key(parameters, credentials, supplier, own_url=bool(url))
        dialects = supplier.dialects
        if url and supplier is OPENAI and not url.startswith("https://api.openai.com"):
            dialects = ("openai-chat",)
        if model.startswith("responses/") and supplier is OPENAI:
            model, dialects = model.removeprefix("responses/"), ("openai-responses",)
        for ending in _ENDPOINTS:
            url = url.removesuffix(ending)
        if supplier is AZURE and url and "/openai/" not in url:
            url = f"{url}/openai/v1"
            parameters.ignore("api_version")
            self._report.note("Azure is reached through its v1 API, without api_version.")
        if not (url or supplier.url):
            parameters.leave("api_base", "is missing, or not set in the environment")
            return "", ""
        fields: dict[str, Any] = {"dialects": dialects, "url": url or supplier.url, "key": key}
        if headers := self._take_headers(parameters):
            fields["headers"] = headers
        if changes := take_parameters(parameters, dialects):
            fields["parameters"] = msgspec.to_builtins(changes)
        timeout = parameters.take_number("timeout")
        if timeout and timeout > 3600:
            parameters.leave("timeout", "a channel waits for an hour at most")
        elif timeout:
            fields["timeout"] = float(timeout)
        if missing:
            fields["enabled"] = False
        return self._channels.add(parameters.path, prefix, **fields), model

    def _find_supplier(
        self, parameters: Fields, full: str
    ) -> tuple[str, KnownSupplier | None, str]:
        prefix = parameters.take_text("custom_llm_provider")
        if prefix:
            return prefix, LITELLM_PREFIXES.get(prefix), full.removeprefix(f"{prefix}/")
        prefix, slash, model = full.partition("/")
        if not slash:
            for beginnings, name in LITELLM_BARE_NAMES:
                if full.startswith(beginnings):
                    return name, LITELLM_PREFIXES[name], full
        return prefix, LITELLM_PREFIXES.get(prefix) if slash else None, model

    def _take_key(
        self, parameters: Fields, credentials: Fields | None, supplier: KnownSupplier, own_url: bool
    ) -> tuple[str, bool]:
        """Return the key, and whether one is missing."""
        places = [parameters, *([credentials] if credentials is not None else [])]
        given = any(one.read("api_key") not in (None, "") for one in places)  # "" is no key
        if key := self._take_secret(parameters, "api_key", credentials):
            return key, False
        if given:
            return "", True  # which was reported
        if own_url or not supplier.variable:  # a key is not sent to another address
            return "", False
        if key := self._environ.get(supplier.variable, ""):
            self._report.note(f"The value of {supplier.variable} is stored in channels.yml.")
            return key, False
        parameters.leave("api_key", self._explain_missing(supplier.variable))
        return "", True

    def _take_secret(self, parameters: Fields, name: str, credentials: Fields | None) -> str:
        """Take a text of a deployment or its credentials, following a reference."""
        text = parameters.take_text(name)
        if not text and credentials is not None and name in credentials:
            value = credentials.read(name)
            text = value if isinstance(value, str) else ""
        if not text.startswith(_REFERENCE):
            return text
        variable = text.removeprefix(_REFERENCE)
        if value := self._environ.get(variable, ""):
            self._report.note(f"The value of {variable[:80]} is stored in channels.yml.")
            return value
        parameters.leave(name, self._explain_missing(variable))
        return ""

    def _explain_missing(self, variable: str) -> str:
        return f"{variable[:80]} {self._unset}; the channel is made disabled, without it"

    def _take_headers(self, parameters: Fields) -> dict[str, str]:
        headers = {}
        if organization := parameters.take_text("organization"):
            headers["OpenAI-Organization"] = organization
        for name in ("extra_headers", "headers"):
            inner = parameters.take_fields(name)
            for header in inner.names:
                if value := self._take_secret(inner, header, None):
                    headers[header] = value
        return headers

    def _take_prices(self, *maps: Fields) -> Prices | None:
        def take_rates(ending: str) -> dict[str, Decimal]:
            rates: dict[str, Decimal] = {}
            for fields in maps:
                for name, rate in _RATES.items():
                    value = fields.take_number(name + ending)
                    if value is None:
                        continue
                    per_million = (value * 1_000_000).normalize() + 0
                    if value <= 1 and count_decimals(per_million) <= MAX_DECIMALS:
                        rates.setdefault(rate, per_million)
                    else:
                        fields.leave(name + ending, "is not a price of a token in USD")
            return rates

        usual = take_rates("")
        above = []
        for size in _TIERS:
            rates = take_rates(f"_above_{size // 1000}k_tokens")
            if rates and {"input", "output"} <= usual.keys():
                above.append(Tier(tokens=size, **{**usual, **rates}))
        if not {"input", "output"} <= usual.keys():
            for name in usual:
                maps[-1].leave(f"price of {name}", "a price needs both input and output")
            return None
        prices = Prices(input=usual.pop("input"), output=usual.pop("output"))
        return structs.replace(prices, above=tuple(above), **usual)


def _to_size(number: Decimal | None, least: int) -> int | None:
    """Return a number of tokens, if a model can have that many."""
    return int(number) if number is not None and least <= number <= 100_000_000 else None
