"""Usage limits that programs tell: kept by access, published when they change, until the reset."""

from agentd.core.clock import FrozenClock
from agentd.core.events import Event, EventBus
from agentd.models.model import Model
from agentd.models.program_state import (
    MOST_WINDOWS,
    PLAN_MODE,
    ProgramAccess,
    ProgramMode,
    ProgramStates,
    UsageWindow,
)

CODEX = ProgramAccess("codex")
HOURS = UsageWindow("5 hours", 82, "2026-01-01T01:00:00.000Z")
WEEK = UsageWindow("7 days", 40, None)


def make_states() -> tuple[ProgramStates, FrozenClock, list[Event]]:
    clock, bus = FrozenClock("2026-01-01T00:00:00.000Z"), EventBus()
    heard: list[Event] = []
    bus.subscribe(heard.append)
    return ProgramStates(clock, bus), clock, heard


def test_windows_that_are_not_named_stay_and_only_changes_are_told() -> None:
    states, _, heard = make_states()
    states.note_limits(CODEX, (HOURS, WEEK))
    states.note_limits(CODEX, (HOURS,))
    assert states.get(CODEX).limits == (HOURS, WEEK)
    assert len(heard) == 1
    fuller = UsageWindow("5 hours", 83, HOURS.resets_at)
    states.note_limits(CODEX, (fuller,))
    assert states.get(CODEX).limits == (fuller, WEEK)
    assert len(heard) == 2


def test_a_window_is_known_until_it_begins_anew() -> None:
    states, clock, _ = make_states()
    states.note_limits(CODEX, (HOURS, WEEK))
    clock.move(3600)
    assert states.get(CODEX).limits == (WEEK,)


def test_models_share_the_limits_of_their_access_and_of_no_other() -> None:
    states, _, _ = make_states()
    states.note_limits(CODEX, (HOURS,))
    same = Model(name="a", engine="codex", model="gpt")
    for other in (
        Model(name="b", engine="codex", supplier="acme"),
        Model(name="c", engine="codex", command=("other-codex",)),
        Model(name="d", engine="claude-code"),
    ):
        assert states.get(ProgramAccess.of("", other)).limits == ()
    assert states.get(ProgramAccess.of("", same)).limits == (HOURS,)


def test_a_program_that_names_ever_new_windows_fills_no_memory() -> None:
    states, _, _ = make_states()
    for number in range(3 * MOST_WINDOWS):
        states.note_limits(CODEX, (UsageWindow(str(number), 1, None),))
    assert len(states.get(CODEX).limits) == MOST_WINDOWS


def test_modes_are_an_engine_s_own_or_those_that_its_program_listed() -> None:
    states, _, heard = make_states()
    assert states.get(CODEX).modes == (PLAN_MODE,)
    agent = ProgramAccess("acp", "", ("opencode", "acp"))
    assert states.get(agent).modes == ()
    build = ProgramMode("build", "Build", "")
    states.note_modes(agent, (build,))
    states.note_modes(agent, (build,))
    assert states.get(agent).modes == (build,)
    assert len(heard) == 1
