"""What the engines' programs told of themselves: how much of their usage limits is used.

It is kept in memory: after a restart the next turn tells it again.
"""

from collections.abc import Iterable
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from agentd.core.clock import Clock, Timestamp
from agentd.core.events import Event, EventBus
from agentd.models.model import Model

MOST_WINDOWS = 20
"""Usage windows of one sign-in; older ones are left out."""


class UsageWindow(Struct, frozen=True, rename="camel"):
    """A span of time in which a sign-in can use only so much of its supplier."""

    name: str
    """Its length, and what it is for if not for everything: ``5 hours``, ``7 days, Opus``."""
    used_percent: Annotated[int, Meta(ge=0, le=100)]
    resets_at: Timestamp | None
    """The time at which it begins anew; null: unknown."""


class ProgramAccess(Struct, frozen=True):
    """How an engine's program reaches its models; those with the same one share their limits."""

    engine: str
    supplier: str = ""
    command: tuple[str, ...] = ()

    @classmethod
    def of_model(cls, model: Model) -> "ProgramAccess":
        """Return the access of a model."""
        return cls(model.engine, model.supplier, model.command)


class ProgramStateView(Struct, frozen=True, rename="camel"):
    """What an engine's program told of itself."""

    limits: tuple[UsageWindow, ...] = ()
    """The known usage windows of its sign-in, until each begins anew."""


class EngineStateView(Struct, frozen=True, rename="camel"):
    """An engine with what its program told of itself."""

    engine: str
    program: ProgramStateView


class EngineUpdate(Event, frozen=True):
    """What an engine's program tells of itself changed: ``{engine, program}``."""

    name: ClassVar[str] = "engineUpdate"
    state: EngineStateView

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire."""
        return [self.state]


class ProgramStates:
    """What each engine's program told last."""

    def __init__(self, clock: Clock, bus: EventBus) -> None:
        self._clock = clock
        self._bus = bus
        self._windows: dict[ProgramAccess, dict[str, UsageWindow]] = {}

    def get(self, access: ProgramAccess) -> ProgramStateView:
        """Return what is known; a window whose time is over is not."""
        now = self._clock.now()
        known = self._windows.get(access, {}).values()
        return ProgramStateView(
            tuple(one for one in known if one.resets_at is None or one.resets_at > now)
        )

    def note_limits(self, access: ProgramAccess, windows: Iterable[UsageWindow]) -> None:
        """Note usage windows; those that are not named stay as they were."""
        before = self.get(access)
        kept = {one.name: one for one in (*before.limits, *windows)}
        self._windows[access] = dict(list(kept.items())[-MOST_WINDOWS:])
        if (state := self.get(access)) != before:
            self._bus.publish(EngineUpdate(EngineStateView(access.engine, state)))
