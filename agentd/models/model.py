"""The models that a chat can choose, and where each is reached.

The same ``Models`` is the schema of the file ``models.yml`` and what the daemon runs with.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, structs

from agentd.core.errors import NotFound, iter_repeated, suggest_name
from agentd.core.secret_text import explain_malformed_secret, is_reference
from agentd.llm.parameters import validate_parameters
from agentd.llm.price import Prices
from agentd.llm.upstream.header_rules import find_plain_header_problem
from agentd.llm.upstream.request import explain_malformed_address
from agentd.models.fallback_validation import validate_fallbacks
from agentd.models.gateway_model import GatewayModel

ModelName: TypeAlias = Annotated[
    str,
    Meta(
        pattern="[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,99}",
        extra={"form": "at most 100 letters, digits and . _ : / @ + -, not beginning with a sign"},
    ),
]
"""The name of a model as a chat writes it."""

Line: TypeAlias = Annotated[str, Meta(min_length=1, max_length=1000)]

Dialect: TypeAlias = Literal["openai-chat", "openai-responses", "anthropic"]
"""The wire format that a supplier speaks."""

GATEWAY = "agentd"
"""The supplier that is this daemon's own model gateway."""

EngineName: TypeAlias = Literal["offline", "native", "codex", "claude-code", "acp"]

_NEEDED: Mapping[str, tuple[str, ...]] = {"native": ("model", "supplier"), "acp": ("command",)}
MAX_USD_PER_SEARCH = 1000
LEAST_CONTEXT = 1000
LEAST_OUTPUT, MAX_OUTPUT = 256, 10_000_000
"""Tokens that an entry may name."""
_SEARCH = ("web_search", "web_search_price")
_IDLE: Mapping[str, tuple[str, ...]] = {
    "native": ("command",),
    "codex": _SEARCH,
    "claude-code": _SEARCH,
    "acp": _SEARCH,
    "offline": (
        *("model", "supplier", "command", "effort", "context", "max_output", "prices"),
        *_SEARCH,
    ),
}
_SEARCHING: tuple[Dialect, ...] = ("openai-responses", "anthropic")
"""The dialects in which a model has a web search of its supplier beside other tools; whether the
gateway's model has one depends on its channel."""


class Supplier(Struct, frozen=True):
    """A supplier that is called directly."""

    dialect: Dialect
    url: Annotated[
        str,
        Meta(
            pattern="https?://[^\\s/?#@]+[^\\s?#]*",
            max_length=1000,
            extra={"form": "an address such as https://api.example.com/v1, without user or query"},
        ),
    ]
    """The base address: what the supplier's documentation puts before ``/v1``, or with it."""
    key: Annotated[str, Meta(max_length=4096, extra={"secret": True})] = ""
    """The key itself, ``env:NAME`` or ``file:PATH``; empty if none is sent."""

    def __post_init__(self) -> None:
        if wrong := explain_malformed_secret(self.key):
            raise ValueError(f"key: {wrong}")

    @property
    def holds_key(self) -> bool:
        """True if the file contains the key itself, not a reference to it."""
        return bool(self.key) and not is_reference(self.key)

    def __repr__(self) -> str:
        """Return a representation without the key, for logs and tracebacks."""
        return f"Supplier(dialect={self.dialect!r}, url={self.url!r})"


class Model(Struct, frozen=True, kw_only=True):
    """A model as a chat names it, the engine that drives it, and what it costs."""

    name: ModelName
    engine: EngineName
    model: Annotated[str, Meta(max_length=200)] = ""
    """The supplier's name of the model; empty: the engine's own default."""
    supplier: str = ""
    """The name of a supplier, ``agentd`` for the gateway; empty: the program's own sign-in."""
    command: tuple[Line, ...] = ()
    """The command line of an external program; empty: the engine's usual one."""
    effort: Annotated[
        str,
        Meta(
            pattern="[a-z]{0,20}|[1-9][0-9]{2,6}",
            extra={"form": "a word such as high, or a number of tokens from 100 on"},
        ),
    ] = ""
    """The reasoning effort, as the supplier calls it, or for Anthropic's older models the maximum
    tokens of thinking; empty: the supplier's default."""
    context: Annotated[int, Meta(ge=LEAST_CONTEXT, le=100_000_000)] | None = None
    """Maximum tokens of a conversation; ``None``: unknown."""
    max_output: Annotated[int, Meta(ge=LEAST_OUTPUT, le=MAX_OUTPUT)] | None = None
    """Maximum tokens of one reply, thinking included; ``None``: unknown."""
    web_search: bool = False
    """Offer the model its supplier's own web search; engine native only."""
    web_search_price: Decimal | None = None
    """USD for one search; ``None``: searches are not counted in costs."""
    prices: Prices | None = None
    """``None``: unknown, so only costs that the engine reports are counted."""

    def __post_init__(self) -> None:
        fee = self.web_search_price
        if fee is not None and not (fee.is_finite() and 0 <= fee <= MAX_USD_PER_SEARCH):
            raise ValueError(
                f"web_search_price: {fee} is not a price; expected 0 to {MAX_USD_PER_SEARCH} USD"
            )


class Models(Struct, frozen=True):
    """The models in the file's order, and their suppliers."""

    default: str = ""
    """The model of a chat that names none; empty: the engine of the settings decides."""
    suppliers: dict[str, Supplier] = {}
    models: tuple[Model, ...] = ()
    proxy: tuple[GatewayModel, ...] = ()
    """The models that callers of the model gateway can name; they are of no concern to chats."""

    def find(self, name: str) -> Model:
        """Return the model of this name. ``NotFound`` suggests the nearest one."""
        for model in self.models:
            if model.name == name:
                return model
        raise NotFound(f'No model is named "{name[:100]}"{suggest_name(name, self.names)}')

    def find_gateway_model(self, name: str) -> GatewayModel | None:
        """Return the gateway's model of this name, if there is one."""
        return next((model for model in self.proxy if model.name == name), None)

    def get_gateway_prices(self, name: str) -> Prices | None:
        """Return the prices of a gateway model by its first route, as the ledger uses them."""
        model = self.find_gateway_model(name)
        return (model.routes[0].prices or model.prices) if model else None

    def complete(self, model: Model) -> Model:
        """Return a model with the prices and sizes of the gateway's model where it has none."""
        own = self.find_gateway_model(model.model) if model.supplier == GATEWAY else None
        if own is None:
            return model
        return structs.replace(
            model,
            prices=model.prices or self.get_gateway_prices(own.name),
            context=model.context or own.context,
            max_output=model.max_output or own.max_output,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names as chats write them, in the file's order."""
        return tuple(model.name for model in self.models)

    @property
    def by_channel(self) -> dict[str, tuple[str, ...]]:
        """The models of the gateway that have a route through each channel, by its name."""
        found: dict[str, dict[str, None]] = {}
        for model in self.proxy:
            for route in model.routes:
                found.setdefault(route.channel, {})[model.name] = None
        return {channel: tuple(names) for channel, names in found.items()}

    def list_falling_back_to(self, name: str) -> tuple[str, ...]:
        """Return the gateway models that name this one as a fallback."""
        return tuple(model.name for model in self.proxy if name in model.all_fallbacks)

    def list_using(self, channel: str) -> tuple[str, ...]:
        """Return the gateway models that have a route through this channel."""
        return tuple(
            model.name
            for model in self.proxy
            if any(route.channel == channel for route in model.routes)
        )


def validate(models: Models) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield each inconsistency in ``models.yml``: where, and why."""
    names = models.names
    for number, name in iter_repeated(names):
        yield ("models", number, "name"), _explain_repeated(name)
    for number, model in enumerate(models.models):
        place = ("models", number)
        if model.supplier not in ("", GATEWAY, *models.suppliers):
            near = suggest_name(model.supplier, models.suppliers) or "; there are none yet"
            yield (*place, "supplier"), f'"{model.supplier}" is none of the suppliers{near}'
        yield from ((place, what) for what in _validate_engine(model))
        supplier = models.suppliers.get(model.supplier)
        searches = supplier.dialect in _SEARCHING if supplier else model.supplier == GATEWAY
        if model.web_search and not searches:
            known = " or ".join(_SEARCHING)
            yield (*place, "web_search"), f"needs a supplier whose dialect is {known}"
        elif model.web_search_price is not None and not model.web_search:
            yield (*place, "web_search_price"), "means nothing without web_search; remove it"
    for name, one in models.suppliers.items():
        if wrong := explain_malformed_address(one.url):
            yield ("suppliers", name, "url"), wrong
    if GATEWAY in models.suppliers:
        yield ("suppliers", GATEWAY), f'"{GATEWAY}" is the name of the gateway; choose another'
    if models.default and models.default not in names:
        near = suggest_name(models.default, names) or "; there are none yet"
        yield ("default",), f'"{models.default}" is none of the models{near}'
    yield from _validate_gateway_models(models.proxy)


def find_unknown_channels(
    models: Models, channels: Collection[str]
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield each route in ``models.yml`` to an unknown channel: where, and why."""
    for number, model in enumerate(models.proxy):
        for which, route in enumerate(model.routes):
            if route.channel not in channels:
                near = suggest_name(route.channel, channels) or "; there are none yet"
                place = ("proxy", number, "routes", which, "channel")
                yield place, f'"{route.channel}" is no channel of channels.yml{near}'


def _validate_gateway_models(
    models: Sequence[GatewayModel],
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for number, name in iter_repeated(model.name for model in models):
        yield ("proxy", number, "name"), _explain_repeated(name)
    for number, model in enumerate(models):
        place = ("proxy", number)
        targets = ((route.channel, route.model or model.name) for route in model.routes)
        for which, _ in iter_repeated(targets):
            yield (*place, "routes", which), "is the same route as one above; remove it"
        for name, value in model.headers.items():
            if wrong := find_plain_header_problem(name, value):
                yield (*place, "headers", name), wrong
        if model.parameters is not None:
            for within, what in validate_parameters(model.parameters):
                yield (*place, "parameters", *within), what
    for below, what in validate_fallbacks(models):
        yield ("proxy", *below), what


def _explain_repeated(name: str) -> str:
    return f'"{name}" is the name of a model above; choose another'


def _validate_engine(model: Model) -> Iterator[str]:
    """Yield the fields that the engine lacks or cannot use."""
    for name in _NEEDED.get(model.engine, ()):
        if not getattr(model, name):
            yield f'"{name}" is missing; engine {model.engine} needs it'
    for name in _IDLE.get(model.engine, ()):
        if getattr(model, name):
            yield f'"{name}" means nothing to engine {model.engine}; remove it'
