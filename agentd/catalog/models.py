"""The models that a chat can choose, and where each is reached.

The same ``Models`` is the schema of the file ``models.yml`` and what the daemon runs with.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from agentd.errors import NotFound, nearest
from agentd.proxy.channel import ProxyModel, is_reference, malformed
from agentd.proxy.price import Prices

Name: TypeAlias = Annotated[str, Meta(pattern="[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,99}")]
"""Of a model, as a chat writes it."""

Line: TypeAlias = Annotated[str, Meta(min_length=1, max_length=1000)]

Dialect: TypeAlias = Literal["openai-chat", "openai-responses", "anthropic"]
"""Which of the three wire formats a supplier speaks."""

GATEWAY = "agentd"
"""The supplier that is this daemon's own model gateway."""

EngineName: TypeAlias = Literal["offline", "native", "codex", "claude-code", "acp"]

_NEEDED: Mapping[str, tuple[str, ...]] = {"native": ("model", "supplier"), "acp": ("command",)}
_IDLE: Mapping[str, tuple[str, ...]] = {
    "native": ("command",),
    "offline": ("model", "supplier", "command", "effort", "context", "prices"),
}


class Supplier(Struct, frozen=True):
    """Where models are reached directly."""

    dialect: Dialect
    url: Annotated[str, Meta(pattern="https?://[^\\s/?#@]+[^\\s?#]*", max_length=1000)]
    """The base address: what the supplier's documentation puts before ``/v1``, or with it."""
    key: Annotated[str, Meta(max_length=4096, extra={"secret": True})] = ""
    """The key itself, ``env:NAME`` or ``file:PATH``; empty: none is sent."""

    def __post_init__(self) -> None:
        if wrong := malformed(self.key):
            raise ValueError(f"key: {wrong}")

    @property
    def holds_key(self) -> bool:
        """Whether the key itself stands in the file, not only where to find it."""
        return bool(self.key) and not is_reference(self.key)

    def __repr__(self) -> str:
        """Without the key, wherever it is printed."""
        return f"Supplier(dialect={self.dialect!r}, url={self.url!r})"


class Model(Struct, frozen=True, kw_only=True):
    """A model as a chat names it, the engine that drives it, and what it costs."""

    name: Name
    engine: EngineName
    model: Annotated[str, Meta(max_length=200)] = ""
    """The supplier's name of it; empty: the engine's own default."""
    supplier: str = ""
    """The name of a supplier, ``agentd`` for the gateway; empty: the program's own sign-in."""
    command: tuple[Line, ...] = ()
    """The program of a foreign engine with its arguments; empty: the engine's usual one."""
    effort: Annotated[str, Meta(pattern="[a-z]{0,20}")] = ""
    """How hard it is to think, in the supplier's word; empty: its default."""
    context: Annotated[int, Meta(ge=1000, le=100_000_000)] | None = None
    """How many tokens it can take in; ``None``: not told."""
    prices: Prices | None = None
    """``None``: not known, so it is only known what the engine itself says."""


class Models(Struct, frozen=True):
    """The models in the file's order, and their suppliers."""

    default: str = ""
    """The model of a chat that names none; empty: the engine of the settings decides."""
    suppliers: dict[str, Supplier] = {}
    models: tuple[Model, ...] = ()
    proxy: tuple[ProxyModel, ...] = ()
    """The models that callers of the model gateway can name; they are of no concern to chats."""

    def find(self, name: str) -> Model:
        """The model of this name. ``NotFound`` tells the nearest one."""
        for model in self.models:
            if model.name == name:
                return model
        raise NotFound(f'No model is named "{name[:100]}"{nearest(name, self.names)}')

    def gateway_prices(self, name: str) -> Prices | None:
        """What a model of the gateway costs by its first way: what the ledger will say."""
        for model in self.proxy:
            if model.name == name:
                return model.ways[0].prices or model.prices
        return None

    @property
    def names(self) -> tuple[str, ...]:
        """As chats write them, in the file's order."""
        return tuple(model.name for model in self.models)

    @property
    def by_channel(self) -> dict[str, tuple[str, ...]]:
        """The models of the gateway that have a way through each channel, by its name."""
        found: dict[str, dict[str, None]] = {}
        for model in self.proxy:
            for way in model.ways:
                found.setdefault(way.channel, {})[model.name] = None
        return {channel: tuple(names) for channel, names in found.items()}

    def using(self, channel: str) -> tuple[str, ...]:
        """The models of the gateway that have a way through this channel."""
        return tuple(
            model.name for model in self.proxy if any(way.channel == channel for way in model.ways)
        )


def contradictions(models: Models) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What does not fit together in ``models.yml``: where, and why."""
    names = models.names
    for number, model in enumerate(models.models):
        place = ("models", number)
        if names.index(model.name) != number:
            yield (*place, "name"), f'"{model.name}" is the name of a model above; choose another'
        if model.supplier not in ("", GATEWAY, *models.suppliers):
            near = nearest(model.supplier, models.suppliers) or "; there are none yet"
            yield (*place, "supplier"), f'"{model.supplier}" is none of the suppliers{near}'
        yield from ((place, what) for what in _unfit(model))
    if GATEWAY in models.suppliers:
        yield ("suppliers", GATEWAY), f'"{GATEWAY}" is the name of the gateway; choose another'
    if models.default and models.default not in names:
        near = nearest(models.default, names) or "; there are none yet"
        yield ("default",), f'"{models.default}" is none of the models{near}'
    yield from _at_odds(models.proxy)


def strays(
    models: Models, channels: Collection[str]
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What of ``models.yml`` does not fit the channels of these names: where, and why."""
    for number, model in enumerate(models.proxy):
        for which, way in enumerate(model.ways):
            if way.channel not in channels:
                near = nearest(way.channel, channels) or "; there are none yet"
                place = ("proxy", number, "ways", which, "channel")
                yield place, f'"{way.channel}" is no channel of channels.yml{near}'


def _at_odds(models: Sequence[ProxyModel]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    names = [model.name for model in models]
    for number, model in enumerate(models):
        place = ("proxy", number)
        if names.index(model.name) != number:
            yield (*place, "name"), f'"{model.name}" is the name of a model above; choose another'
        targets = [(way.channel, way.model or model.name) for way in model.ways]
        for which, target in enumerate(targets):
            if targets.index(target) != which:
                yield (*place, "ways", which), "is the same way as one above; remove it"


def _unfit(model: Model) -> Iterator[str]:
    """What the engine needs and is not given, or is given and cannot use."""
    for name in _NEEDED.get(model.engine, ()):
        if not getattr(model, name):
            yield f'"{name}" is missing; engine {model.engine} needs it'
    for name in _IDLE.get(model.engine, ()):
        if getattr(model, name):
            yield f'"{name}" means nothing to engine {model.engine}; remove it'
