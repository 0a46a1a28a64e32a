"""Where a model is reached, and what is done when it is not: wait, trim, come back later, fail."""

import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Protocol, TypeAlias

from msgspec import Struct

from agentd.agent.engine import Failed, Limited
from agentd.clock import Clock, not_before, parse_iso
from agentd.errors import SupplierUnreachable
from agentd.proxy.dialects.conversation import DialectName, SupplierError
from agentd.proxy.upstream import Timeouts


class SupplierAccess(Struct, frozen=True):
    """How to call a supplier, for one turn."""

    name: str
    dialect: DialectName
    url: str
    """Its address, with or without ``/v1``."""
    key: str = ""

    def __repr__(self) -> str:
        """Without the key."""
        return f"SupplierAccess({self.name!r}, {self.dialect!r}, {self.url!r})"


class Suppliers(Protocol):
    """Knows every supplier by its name; keys are fetched when they are used."""

    def __call__(self, name: str) -> Awaitable[SupplierAccess]:
        """How to call this one. Raises ``NotFound`` or ``Misconfigured``."""
        ...


class Patience(Struct, frozen=True):
    """How long one step waits for a supplier; in seconds, but for ``tries``."""

    tries: int = 5
    first: float = 1.0
    """The first pause; each next one is twice as long ..."""
    longest: float = 30.0
    """... but no longer than this."""
    told: float = 60.0
    """The longest pause that a supplier may ask for before the turn is rather put off."""
    timeouts: Timeouts = Timeouts()
    """Of each request; its total is cut to what the turn has left."""


class Wait(Struct, frozen=True):
    """Try again after so many seconds."""

    seconds: float


class Trim(Struct, frozen=True):
    """Try again with a shorter conversation."""


Trouble: TypeAlias = SupplierError | SupplierUnreachable
Cure: TypeAlias = Wait | Trim | Limited | Failed

_PASSING = ("rate_limit", "overloaded", "server", "garbled", "broken")
"""What may be over when it is tried again."""


class Recovery:
    """What to do about the troubles of one step; ``chance`` gives numbers from 0 to 1."""

    def __init__(
        self,
        access: SupplierAccess,
        model: str,
        patience: Patience,
        clock: Clock,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._access = access
        self._model = model
        self._patience = patience
        self._clock = clock
        self._chance = chance
        self._tries = 0
        self._torn = False
        self._trimmed = False

    def after(self, trouble: Trouble, *, shown: bool) -> Cure:
        """What to do; ``shown``: a part of the reply was told already.

        Such a step is tried once more only, since the person reads it twice.
        """
        if isinstance(trouble, SupplierUnreachable):
            return self._again(shown) or Failed(trouble.message)
        trouble = trouble.hiding(self._access.key)
        if trouble.kind == "context_too_long" and not self._trimmed:
            self._trimmed = True
            return Trim()
        wait = trouble.retry_after
        if wait is not None and (trouble.kind == "quota" or wait > self._patience.told):
            return self._limited(trouble, wait)
        if trouble.kind not in _PASSING:
            return Failed(self._reason(trouble))
        again = self._again(shown, wait)
        if again is None and trouble.kind == "rate_limit":
            return self._limited(trouble, None)
        return again or Failed(self._reason(trouble))

    def _again(self, shown: bool, wait: float | None = None) -> Wait | None:
        self._tries += 1
        if self._tries >= self._patience.tries or (shown and self._torn):
            return None
        self._torn = self._torn or shown
        pause = min(self._patience.first * 2.0 ** (self._tries - 1), self._patience.longest)
        # Half of it by chance, so that those who were refused together do not come back together.
        pause *= 0.5 + 0.5 * self._chance()
        return Wait(pause if wait is None else wait + pause / 4)

    def _limited(self, trouble: SupplierError, wait: float | None) -> Limited:
        until = ""
        if wait is not None:
            until = not_before(parse_iso(self._clock.now()) + timedelta(seconds=wait))
        return Limited(f"{self._access.name} limits the use of it: {trouble.message}", until)

    def _reason(self, trouble: SupplierError) -> str:  # noqa: PLR0911 - one for each kind
        name, said = self._access.name, trouble.message
        match trouble.kind:
            case "authentication":
                key = f"suppliers.{name}.key in config/models.yml"
                what = "did not accept its key" if self._access.key else "wants a key, and has none"
                return f"{name} {what}: {said} The key is set by {key}."
            case "permission":
                return f"{name} does not allow this with the key of suppliers.{name}.key: {said}"
            case "not_found":
                return f"{name} does not know the model {self._model}, or its address: {said}"
            case "quota":
                return f"{name} gives no more until it is paid: {said}"
            case "context_too_long":
                return f"The conversation is too long for {self._model}, however it is cut: {said}"
            case "broken" | "garbled":
                return f"The answer of {name} broke off or made no sense: {said}"
            case _:
                return f"{name} could not answer: {said}"
