"""The state of the engines' programs: their modes, and how much of their usage limits is used.

It is as the programs reported it, and kept in memory: after a restart the next turn reports again.
"""

from collections.abc import Iterable, Mapping
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


class ProgramMode(Struct, frozen=True, rename="camel"):
    """A way in which a program can work."""

    id: str
    name: str
    description: str


PLAN_MODE = ProgramMode("plan", "Plan", "Reads and plans, and changes nothing.")

OWN_MODES: Mapping[str, tuple[ProgramMode, ...]] = {
    "codex": (PLAN_MODE,),
    "claude-code": (PLAN_MODE,),
}
"""The modes of the engines whose programs do not list them."""

MOST_MODES = 30
"""Modes of one program; further ones are left out."""


class ProgramAccess(Struct, frozen=True):
    """How an engine's program reaches its models; those with the same one share their limits."""

    engine: str
    supplier: str = ""
    command: tuple[str, ...] = ()

    @classmethod
    def of(cls, engine: str, model: Model | None) -> "ProgramAccess":
        """Return the access of a model, or of an engine that is used without one."""
        return cls(model.engine, model.supplier, model.command) if model else cls(engine)


class ProgramStateView(Struct, frozen=True, rename="camel"):
    """The modes and usage limits of an engine's program, as far as they are known."""

    limits: tuple[UsageWindow, ...] = ()
    """The known usage windows of its sign-in, until each begins anew."""
    modes: tuple[ProgramMode, ...] = ()
    """The modes that a chat can choose; those of an ACP agent are known once it had a turn."""


class EngineStateView(Struct, frozen=True, rename="camel"):
    """An engine with the state of its program."""

    engine: str
    program: ProgramStateView


class EngineUpdate(Event, frozen=True):
    """The state of an engine's program changed: ``{engine, program}``."""

    name: ClassVar[str] = "engineUpdate"
    state: EngineStateView

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire."""
        return [self.state]


class ProgramStates:
    """The last reported state of each engine's program."""

    def __init__(self, clock: Clock, bus: EventBus) -> None:
        self._clock = clock
        self._bus = bus
        self._windows: dict[ProgramAccess, dict[str, UsageWindow]] = {}
        self._modes: dict[ProgramAccess, tuple[ProgramMode, ...]] = {}

    def get(self, access: ProgramAccess) -> ProgramStateView:
        """Return the known state, without usage windows that are over."""
        now = self._clock.now()
        known = self._windows.get(access, {}).values()
        return ProgramStateView(
            tuple(one for one in known if one.resets_at is None or one.resets_at > now),
            self._modes.get(access, OWN_MODES.get(access.engine, ())),
        )

    def note_limits(self, access: ProgramAccess, windows: Iterable[UsageWindow]) -> None:
        """Note usage windows; those that are not named stay as they were."""
        before = self.get(access)
        kept = {one.name: one for one in (*before.limits, *windows)}
        self._windows[access] = dict(list(kept.items())[-MOST_WINDOWS:])
        self._publish_change(access, before)

    def note_modes(self, access: ProgramAccess, modes: tuple[ProgramMode, ...]) -> None:
        """Note all modes that a program lists."""
        before = self.get(access)
        self._modes[access] = modes[:MOST_MODES]
        self._publish_change(access, before)

    def _publish_change(self, access: ProgramAccess, before: ProgramStateView) -> None:
        if (state := self.get(access)) != before:
            self._bus.publish(EngineUpdate(EngineStateView(access.engine, state)))
