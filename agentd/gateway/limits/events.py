"""Events of limits in USD: a soft one was passed, or a hard one refused a request.

Each is published once in a period, and again if the limit's amount is changed meanwhile.
"""

from decimal import Decimal
from typing import ClassVar, Literal, TypeAlias

from msgspec import Struct

from agentd.core.clock import Timestamp
from agentd.core.events import Event

LimitScope: TypeAlias = Literal["key", "model", "owner", "tag"]
"""What a limit is of: an access key, a model within one, an owner of keys, or a tag on keys."""

LimitWindow: TypeAlias = Literal["total", "day", "week", "month"]
"""The period of a limit in USD; ``total`` never resets."""


class ReachedLimit(Struct, frozen=True, rename="camel", kw_only=True):
    """A limit, and how much of it is spent."""

    scope: LimitScope
    """``key``, ``model`` (within a key), ``owner`` or ``tag``."""
    name: str
    """Name of the access key, the owner or the tag."""
    key: str = ""
    """Id of the access key; empty: the limit is shared by keys."""
    model: str = ""
    """The model, or the pattern of models, that the limit is of; empty: all models."""
    budget: str = ""
    """Name of the budget that has the limit; empty: it is the key's own."""
    window: LimitWindow
    """``total``, ``day``, ``week`` or ``month``."""
    limit: Decimal
    """The amount in USD that was reached."""
    spent: Decimal
    """USD spent in the period, without what requests under way reserve."""
    resets: Timestamp | None
    """When the period ends; null: never."""


class SoftLimitReached(Event, frozen=True):
    """A soft limit was passed; requests are still served. Not stored, so it has no ``seq``."""

    name: ClassVar[str] = "softLimitReached"
    for_administrators: ClassVar[bool] = True
    reached: ReachedLimit

    def build_arguments(self, run: str) -> list[object]:
        """Return the arguments of the event, as clients receive them."""
        return [self.reached]


class HardLimitReached(Event, frozen=True):
    """A hard limit refused a request. Not stored, so it has no ``seq``."""

    name: ClassVar[str] = "hardLimitReached"
    for_administrators: ClassVar[bool] = True
    reached: ReachedLimit

    def build_arguments(self, run: str) -> list[object]:
        """Return the arguments of the event, as clients receive them."""
        return [self.reached]
