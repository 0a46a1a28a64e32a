"""Reads the catalogue out of the library ``genai-prices``, which the extra ``prices`` installs.

The library and its data take 100 MB: the daemon runs this in a process of its own
(``extraction_child``), a command in itself.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from agentd.core.clock import Timestamp
from agentd.core.errors import Unavailable
from agentd.gateway.catalogue.model import (
    CatalogueModel,
    CatalogueSupplier,
    DatedPrices,
    NamePattern,
    PriceCatalogue,
)
from agentd.llm.price import Prices, ServiceRates, Tier
from agentd.system.installed import get_install_command

MISSING = "The price catalogue is not installed"
"""The message where the library is missing."""

_RATES = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
    "reasoning": "output_reasoning_mtok",
}
"""Our rates, and the library's names of them."""

_OTHER_OUTPUT = ("output_image_mtok", "output_audio_mtok", "output_video_mtok")
_LEFT_OUT = {
    "requests_kcount": "a fee for each request",
    "web_searches_kcount": "fees for web searches",
    "input_audio_mtok": "other rates for audio",
    "output_image_mtok": "other rates for images",
}
"""Prices of the library that ours do not have."""

_LONG_AGO = date(2000, 1, 1)

_CLAUSES = ("equals", "starts_with", "ends_with", "contains", "regex")


def extract_catalogue(at: Timestamp) -> PriceCatalogue:
    """Return the installed library's catalogue. Blocks for half a second; ``Unavailable``."""
    try:
        import genai_prices  # noqa: PLC0415 - an extra, and heavy
        from genai_prices.data import providers  # noqa: PLC0415
    except ImportError as error:
        raise Unavailable(MISSING, get_install_command("prices")) from error
    return PriceCatalogue(
        source=f"genai-prices {genai_prices.__version__}",
        at=at,
        suppliers=tuple(map(_convert_supplier, providers)),
    )


def _convert_supplier(provider: Any) -> CatalogueSupplier:
    return CatalogueSupplier(
        id=provider.id,
        name=provider.name,
        address=provider.api_pattern or "",
        model_names=_convert_clause(provider.model_match) if provider.model_match else None,
        resells=tuple(provider.fallback_model_providers or ()),
        models=tuple(_convert_models(provider.models)),
    )


def _convert_models(models: Iterable[Any]) -> Iterator[CatalogueModel]:
    for model in models:
        history = _convert_history(model)
        if history:
            yield CatalogueModel(
                id=model.id,
                name=model.name or "",
                match=_convert_clause(model.match),
                history=history,
                context=model.context_window,
                note=_describe_omissions(model),
            )


def _convert_clause(clause: Any) -> NamePattern:
    simple = {name: getattr(clause, name) for name in _CLAUSES if hasattr(clause, name)}
    return NamePattern(
        **simple,
        any_of=tuple(map(_convert_clause, getattr(clause, "or_", ()))),
        all_of=tuple(map(_convert_clause, getattr(clause, "and_", ()))),
    )


def _convert_history(model: Any) -> tuple[DatedPrices, ...]:
    """Return the prices by day; empty if tokens are not what the model is paid by."""
    found: list[DatedPrices] = []
    for since in _list_days(model):
        prices = _convert_prices(model, _find_dearest_moment(model, since))
        if prices and (not found or found[-1].prices != prices):
            found.append(DatedPrices(prices, "" if since == _LONG_AGO else since.isoformat()))
    return tuple(found)


def _list_conditional(model: Any) -> list[Any]:
    return model.prices if isinstance(model.prices, list) else []


def _list_days(model: Any) -> list[date]:
    """Return the days from which any price of a model holds, the first one long ago."""
    dated = (*_list_conditional(model), *(model.price_variants or ()))
    days = {getattr(one.constraint, "start_date", _LONG_AGO) for one in dated}
    return sorted({_LONG_AGO, *days})


def _depends_on_time_of_day(model: Any) -> bool:
    return any(hasattr(one.constraint, "start_time") for one in _list_conditional(model))


def _find_dearest_moment(model: Any, day: date) -> datetime:
    """Return the moment of a day at which input costs most, so that no limit is passed unseen."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    if not _depends_on_time_of_day(model):
        return midnight

    def get_input_rate(moment: datetime) -> Decimal:
        return _get_rate(_get(model.get_prices(moment), "input_mtok"), 0) or Decimal(0)

    return max((midnight + timedelta(minutes=30 * half) for half in range(48)), key=get_input_rate)


def _convert_prices(model: Any, moment: datetime) -> Prices | None:
    listed = model.get_prices(moment)
    rates = _get_rates(listed, 0)
    if rates is None:
        return None
    starts = {
        tier.start for key in _RATES.values() for tier in getattr(_get(listed, key), "tiers", ())
    }
    try:
        return Prices(
            **rates,
            above=tuple(
                Tier(tokens=start, **(_get_rates(listed, start + 1) or rates))
                for start in sorted(starts - {0})
            ),
            services=tuple(_convert_services(model, moment)),
        )
    except ValueError:  # a price that cannot be one
        return None


def _convert_services(model: Any, moment: datetime) -> Iterator[ServiceRates]:
    """Yield the rates of service tiers; not those that depend on the size of the input."""
    for when in sorted({tuple(one.when.items()) for one in model.price_variants or ()}):
        ((field, value), *more) = when
        tier = {"service_tier": value, "speed": f"speed:{value}"}.get(field, "")
        listed = model.get_prices(moment, dict(when))
        tiered = any(hasattr(_get(listed, key), "tiers") for key in _RATES.values())
        if more or not tier or tiered or listed == model.get_prices(moment):
            continue
        if rates := _get_rates(listed, 0):
            yield ServiceRates(tier=tier, **rates)


def _get_rates(listed: Any, tokens: int) -> dict[str, Any] | None:
    """Return the rates of a request with so many input tokens; None without a price of input."""
    rates = {name: _get_rate(_get(listed, key), tokens) for name, key in _RATES.items()}
    if rates["input"] is None:
        return None
    if rates["output"] is None:
        if any(_get(listed, key) is not None for key in _OTHER_OUTPUT):
            return None
        rates["output"] = Decimal(0)  # embeddings have no output
    return {name: rate for name, rate in rates.items() if rate is not None}


def _get_rate(price: Any, tokens: int) -> Decimal | None:
    if price is None or isinstance(price, Decimal):
        return price
    reached = [tier.price for tier in price.tiers if tokens > tier.start]
    rate: Decimal = reached[-1] if reached else price.base
    return rate


def _get(listed: Any, key: str) -> Any:
    return vars(listed).get(key)


def _describe_omissions(model: Any) -> str:
    conditional = _list_conditional(model)
    listed = [one.prices for one in conditional] or [model.prices]
    left = [what for key, what in _LEFT_OUT.items() if any(_get(one, key) for one in listed)]
    if _depends_on_time_of_day(model):
        left.append("the lower rates of some times of the day")
    return f"Without {', '.join(left)}." if left else ""
