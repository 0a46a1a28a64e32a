"""The ``config.yaml`` of a LiteLLM proxy."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import structs

from agentd.gateway.keys.limits import KeyLimits
from agentd.gateway.limits.budgets import Budget
from agentd.gateway.migration.litellm_deployments import (
    NO_FIELD,
    LiteLlmDeployment,
    LiteLlmDeploymentMapper,
)
from agentd.gateway.migration.plan import (
    ChannelDrafts,
    ConfigPath,
    ConfigSource,
    Fields,
    ImportPlan,
    Report,
    add_fallback,
    is_model_name,
    scale_weights,
)
from agentd.llm.price import Prices
from agentd.models.gateway_model import GatewayModel, ModelRoute

_FALLBACKS = {
    "fallbacks": "fallbacks",
    "context_window_fallbacks": "context_fallbacks",
    "content_policy_fallbacks": "content_fallbacks",
}
_KEYS = "keys of callers are not moved; make access keys with: agentd proxy key add"
_NO_USERS = (
    "agentd has no users with defaults; limit keys or their owners: agentd proxy budget --help"
)
_WHOLE = "no budget is of all requests; give all keys one tag, and that a budget"
_CALLBACKS = "see /api/agent/metrics for Prometheus, and tracing of proxy.yml for OpenTelemetry"
_REASONS = {
    "master_key": "make a key with: agentd proxy management-key add; " + _KEYS,
    "success_callback": _CALLBACKS,
    "failure_callback": _CALLBACKS,
    "callbacks": _CALLBACKS,
    "database_url": "agentd has no database; " + _KEYS,
    "drop_params": "agentd drops or translates parameters by dialect",
    "num_retries": "tries of proxy.yml says how often a request is tried",
    "routing_strategy": "routes have priorities and weights; choose these in models.yml",
    "request_timeout": "set timeout of the channels",
    "max_budget": _WHOLE,
    "budget_duration": _WHOLE,
    "provider_budget_config": "channels have no budgets; owners and tags of keys have",
    **dict.fromkeys(
        (
            *("default_internal_user_params", "default_team_params", "default_team_settings"),
            *("max_internal_user_budget", "internal_user_budget_duration", "max_user_budget"),
            *("max_end_user_budget", "max_end_user_budget_id", "default_key_generate_params"),
            "upperbound_key_generate_params",
        ),
        _NO_USERS,
    ),
}
_WINDOWS = {"1d": "day", "24h": "day", "7d": "week", "30d": "month", "1mo": "month"}
"""The durations of budgets for which there is a window of about the same length."""
_NO_SETTING = "agentd has no such setting"
_UNSET = "is not set in this command's environment"
_NOT_LOOKED_UP = "is a variable that is not looked up here: fill in its value"


def map_litellm(source: ConfigSource, environ: Mapping[str, str] | None) -> ImportPlan:
    """Map a LiteLLM configuration.

    ``environ`` has what ``os.environ/NAME`` refers to; ``None``: that is to be filled in later.
    """
    return _LiteLlmMapper(source, environ).map_all()


class _LiteLlmMapper:
    """Maps one configuration."""

    def __init__(self, source: ConfigSource, environ: Mapping[str, str] | None) -> None:
        self._report = Report(source)
        self._channels = ChannelDrafts(self._report, merge=True)
        self._environ = dict(environ or {})
        self._unset = _UNSET if environ is not None else _NOT_LOOKED_UP
        self._credentials: dict[str, Fields] = {}
        self._models: dict[str, list[LiteLlmDeployment]] = {}
        self._aliases: dict[str, str] = {}
        self._budgets: list[Budget] = []
        self._fallbacks: dict[str, dict[str, tuple[str, ...]]] = {
            field: {} for field in _FALLBACKS.values()
        }

    def map_all(self) -> ImportPlan:
        """Return the plan."""
        root = self._report.fields((), self._report.source.content)
        variables = root.take_fields("environment_variables")
        for name in variables.names:
            self._environ.setdefault(name, variables.take_text(name))
        for number, one in enumerate(root.take_list("credential_list")):
            entry = self._report.fields(("credential_list", number), one)
            name = entry.take_text("credential_name")
            self._credentials[name] = entry.take_fields("credential_values")
            entry.ignore("credential_info")
            entry.leave_rest(NO_FIELD)
        mapper = LiteLlmDeploymentMapper(
            self._report, self._channels, self._environ, self._credentials, self._unset
        )
        for number, one in enumerate(root.take_list("model_list")):
            self._add_deployment(mapper, self._report.fields(("model_list", number), one))
        router, library = root.take_fields("router_settings"), root.take_fields("litellm_settings")
        self._add_tag_budgets(library.take_fields("tag_budget_config"))
        self._add_aliases(router)
        for settings in (router, library):
            for name, field in _FALLBACKS.items():
                self._add_fallbacks(settings, name, field)
            self._add_default_fallbacks(settings)
            settings.leave_rest(_NO_SETTING, _REASONS)
        root.take_fields("general_settings").leave_rest(_NO_SETTING, _REASONS)
        root.leave_rest(_NO_SETTING)
        return ImportPlan(
            channels=self._channels.channels,
            models=tuple(self._build_models()),
            budgets=tuple(self._budgets),
            leftovers=tuple(self._report.leftovers),
            notes=tuple(self._report.notes),
        )

    def _add_deployment(self, mapper: LiteLlmDeploymentMapper, entry: Fields) -> None:
        name = entry.take_text("model_name")
        if not is_model_name(name):
            entry.leave("model_name", "callers use exact names without wildcards and blanks")
        elif deployment := mapper.map_entry(entry):
            self._add_route(name, deployment)

    def _add_route(self, name: str, deployment: LiteLlmDeployment) -> None:
        others = self._models.setdefault(name, [])
        if any(
            (one.channel, one.model) == (deployment.channel, deployment.model) for one in others
        ):
            self._report.leave(deployment.path, "is the same deployment as one above")
        else:
            others.append(deployment)

    def _add_tag_budgets(self, tags: Fields) -> None:
        for tag in tags.names:
            entry = tags.take_fields(tag)
            amounts = [entry.take_number(name) for name in ("max_budget", "budget_limit")]
            amount = next((one for one in amounts if one is not None), None)
            duration = entry.take_text("budget_duration") or entry.take_text("time_period")
            window = _WINDOWS.get(duration)
            if amount is None or window is None:
                why = f"a budget needs an amount, and one of {', '.join(_WINDOWS)}"
                self._report.leave(entry.path, why)
                continue
            entry.leave_rest(NO_FIELD)
            try:
                limits = msgspec.convert({window: str(amount)}, KeyLimits)
                self._budgets.append(
                    msgspec.convert({"name": tag, "tag": tag, "limits": limits}, Budget)
                )
            except ValueError as error:  # msgspec's own errors are of this kind
                self._report.leave(entry.path, f"the budget would not be valid: {error}")
                continue
            self._report.note(
                "A budget counts keys that have its tag: agentd proxy key change KEY --tag TAG."
            )
            if duration in ("7d", "30d"):
                self._report.note("Weeks begin on Monday and months on the 1st, not with the use.")

    def _add_aliases(self, router: Fields) -> None:
        aliases = router.take_fields("model_group_alias")
        for alias in aliases.names:
            target = aliases.take(alias)
            name = target.get("model") if isinstance(target, dict) else target
            is_new = is_model_name(alias) and alias not in self._models
            if is_new and isinstance(name, str) and name in self._models:
                self._aliases[alias] = name
            else:
                aliases.leave(alias, "is no new name of a model that was taken")

    def _add_fallbacks(self, settings: Fields, name: str, field: str) -> None:
        for number, one in enumerate(settings.take_list(name)):
            entry = self._report.fields((*settings.path, name, number), one)
            for model in entry.names:
                targets = entry.take_list(model)
                if model == "*":
                    self._add_to_all(entry.path, field, targets)
                    continue
                self._add_to_list((*entry.path, model), field, model, targets)

    def _add_default_fallbacks(self, settings: Fields) -> None:
        targets = settings.take_list("default_fallbacks")
        self._add_to_all((*settings.path, "default_fallbacks"), "fallbacks", targets)

    def _add_to_all(self, path: ConfigPath, field: str, targets: list[Any]) -> None:
        """Give fallbacks to each model without its own; a target itself gets none."""
        lists = self._fallbacks[field]
        for model in list(self._models):
            if targets and model not in lists and model not in targets:
                self._add_to_list(path, field, model, targets)

    def _add_to_list(self, path: ConfigPath, field: str, model: str, targets: list[Any]) -> None:
        if not self._is_known(model):
            self._report.leave(path, "there is no such model among those taken")
            return
        for number, target in enumerate(targets):
            if not (isinstance(target, str) and self._is_known(target)):
                why = "there is no such model among those taken"
            else:
                why = add_fallback(self._fallbacks[field], model, target)
            if why:
                self._report.leave((*path, number), why)

    def _is_known(self, name: str) -> bool:
        return name in self._models or name in self._aliases

    def _build_models(self) -> Iterator[GatewayModel]:
        for name, source in [*((one, one) for one in self._models), *self._aliases.items()]:
            deployments = self._models[source]
            prices = next((one.prices for one in deployments if one.prices), None)
            model = GatewayModel(
                name=name,
                routes=tuple(self._build_routes(deployments, prices)),
                prices=prices,
                max_output=next((one.max_output for one in deployments if one.max_output), None),
                context=next((one.context for one in deployments if one.context), None),
            )
            fallbacks = {field: lists.get(name, ()) for field, lists in self._fallbacks.items()}
            yield structs.replace(model, **fallbacks)

    def _build_routes(
        self, deployments: list[LiteLlmDeployment], prices: Prices | None
    ) -> Iterator[ModelRoute]:
        orders = sorted({one.order or Decimal(0) for one in deployments})
        kind = next(
            (
                kind
                for kind in ("weight", "rpm", "tpm")
                if all(kind in one.weights for one in deployments)
            ),
            "",
        )
        weights = scale_weights([one.weights.get(kind, Decimal(1)) for one in deployments])
        for one, weight in zip(deployments, weights, strict=True):
            yield ModelRoute(
                channel=one.channel,
                model=one.model,
                priority=min(orders.index(one.order or Decimal(0)), 1000),
                weight=weight,
                prices=one.prices if one.prices != prices else None,
            )
