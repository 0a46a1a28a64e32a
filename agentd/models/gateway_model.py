"""A model of the gateway, as ``models.yml`` names it, and the channels through which it is had."""

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct, structs

from agentd.llm.parameters import ParameterChanges
from agentd.llm.price import Prices

ChannelName: TypeAlias = Annotated[
    str,
    Meta(
        pattern="[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
        extra={"form": "at most 64 letters, digits and . _ -, not beginning with a sign"},
    ),
]


GatewayModelName: TypeAlias = Annotated[
    str,
    Meta(
        pattern="[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,99}",
        extra={"form": "at most 100 letters, digits and . _ : / @ + -, not beginning with a sign"},
    ),
]

FallbackNames: TypeAlias = Annotated[tuple[GatewayModelName, ...], Meta(max_length=8)]


class ModelRoute(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A channel through which a model is reached; of equal ``priority``, ``weight`` decides."""

    channel: ChannelName
    """The name of the channel."""
    model: Annotated[str, Meta(max_length=200)] = ""
    """The supplier's name of the model; empty: the same."""
    priority: Annotated[int, Meta(ge=0, le=1000)] = 0
    """The smallest is tried first."""
    weight: Annotated[int, Meta(ge=0, le=1000)] = 1
    """The share among routes of the same priority; 0: last."""
    prices: Prices | None = None
    """The route's own prices, if they differ from the model's."""


class GatewayModel(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model as callers of the gateway name it: an entry of ``models.yml``, section ``proxy``."""

    name: GatewayModelName
    """The name that callers request."""
    routes: Annotated[tuple[ModelRoute, ...], Meta(min_length=1)]
    """The channels that can serve it, and the order in which they are tried."""
    enabled: bool = True
    """True if it can be called."""
    prices: Prices | None = None
    """The prices, in USD per million tokens; none: unknown."""
    max_output: Annotated[int, Meta(ge=1, le=100_000_000)] | None = None
    """Maximum tokens of a reply; reserved when the caller sets no limit."""
    context: Annotated[int, Meta(ge=1000, le=100_000_000)] | None = None
    """Maximum tokens of a conversation."""
    fallbacks: FallbackNames = ()
    """The models to try, in order, when all its routes failed."""
    context_fallbacks: FallbackNames = ()
    """The models to try when a supplier refuses a request because it is too long."""
    content_fallbacks: FallbackNames = ()
    """The models to try when a supplier's content filter refuses a request."""
    headers: dict[str, str] = {}
    """Sent with its requests, in place of the channel's of the same name; no credentials."""
    parameters: ParameterChanges | None = None
    """Changes of the parameters of its requests."""

    def __post_init__(self) -> None:
        if self.parameters is not None and self.parameters.is_empty:
            structs.force_setattr(self, "parameters", None)  # as it is in the file then

    @property
    def is_priced(self) -> bool:
        """True if the price of every route is known."""
        return self.prices is not None or all(route.prices for route in self.routes)

    @property
    def all_fallbacks(self) -> tuple[str, ...]:
        """The models of all three lists, each once."""
        return tuple(
            dict.fromkeys((*self.fallbacks, *self.context_fallbacks, *self.content_fallbacks))
        )
