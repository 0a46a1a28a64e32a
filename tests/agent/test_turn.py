"""Whatever an engine tells in whatever order, a turn has exactly one end, and nothing after it."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from agentd.agent.engine import (
    ApprovalRequested,
    EngineEvent,
    EngineStateSaved,
    RateLimited,
    ReplyCompleted,
    ReplyDelta,
    ThinkingProgress,
    ToolStarted,
    ToolUsed,
    TurnFailed,
    UsageReported,
)
from agentd.agent.turn import (
    ENDLESS,
    LONGEST_INPUT_NOTED,
    LONGEST_REPLY,
    LONGEST_THINKING,
    MOST_TOOLS_NOTED,
    SILENT,
    AddMessage,
    DeferTurn,
    EndTurn,
    Instruction,
    RecordToolStart,
    SaveEngineState,
    StreamDelta,
    StreamThinking,
    TurnMachine,
)
from agentd.chats.model import Tokens, ToolReport
from agentd.chats.records import ToolUse
from agentd.llm.price import Prices, Usage

money = st.decimals(0, 9, places=6)
whole = st.one_of(
    st.builds(ToolUsed, st.just("look"), st.text(max_size=3), st.text(max_size=3)),
    st.builds(ReplyCompleted, st.text(max_size=3), st.builds(Usage, st.integers(0, 9)), money),
)
result = st.one_of(
    st.builds(ReplyDelta, st.text(max_size=3)),
    st.builds(ThinkingProgress, st.text(max_size=3)),
    st.builds(UsageReported, st.builds(Usage, st.integers(0, 9)), money),
    st.builds(RateLimited, st.just("too much")),
    whole,
    st.builds(TurnFailed, st.just("why")),
)
ends = st.sampled_from(["finished", "failed", "stopped", "interrupted"])


def play(steps, prices: Prices | None = None) -> list[Instruction]:
    turn, said = TurnMachine(prices), []
    for step in steps:
        if step == "finished":
            said += turn.finish()
        elif step == "stopped":
            said += turn.stop()
        elif step in ("failed", "interrupted"):
            said += getattr(turn, {"failed": "fail", "interrupted": "interrupt"}[step])(
                "broke down"
            )
        else:
            said += turn.handle(step)
    assert turn.over == any(isinstance(one, EndTurn | DeferTurn) for one in said)
    return said


@given(st.lists(result | ends), ends)
def test_the_end_comes_exactly_once_and_last(steps, end):
    *before, last = play([*steps, end])
    assert isinstance(last, EndTurn | DeferTurn)
    assert not any(isinstance(one, EndTurn | DeferTurn) for one in before)


kept = st.builds(
    lambda one, number: structs.replace(one, engine_state=f"{number}") if number else one,
    st.builds(UsageReported, st.just(Usage(1)))
    | st.builds(ReplyCompleted, st.just("x"), st.just(Usage(1))),
    st.integers(0, 9),
)


@given(st.lists(kept | st.builds(ToolUsed, st.just("look"), st.just(""), st.just(""))), ends)
def test_what_is_to_be_kept_with_a_usage_is_reported_with_all_that_was_used_up_to_it(steps, end):
    expected, counted, latest = {}, 0, ""
    for step in steps:
        if not isinstance(step, ToolUsed):
            counted, latest = counted + 1, step.engine_state or latest
            expected[counted] = latest
    booked, memory = 0, ""
    for one in play([*steps, end]):
        if isinstance(one, AddMessage | EndTurn):
            booked += one.tokens.input
            memory = one.engine_state or memory
            assert memory == expected.get(booked, "")
    assert booked == counted


@given(st.lists(result))
def test_without_an_end_there_is_none_but_by_failing(steps):
    ended = any(isinstance(one, EndTurn | DeferTurn) for one in play(steps))
    assert ended == any(isinstance(step, TurnFailed | RateLimited) for step in steps)


@given(st.lists(whole))
def test_everything_reported_is_said_in_order(steps):
    said = play(steps)
    assert [one.role for one in said] == [
        "tool" if isinstance(step, ToolUsed) else "assistant" for step in steps
    ]


def test_a_reply_is_said_with_its_tokens_and_cost():
    used = Usage(input=1, cache_read=10, output=2, reasoning=5)
    assert play([ReplyCompleted("hi", used, Decimal("0.5"))]) == [
        AddMessage("assistant", "hi", tokens=Tokens(11, 7), cost=Decimal("0.5"))
    ]
    prices = Prices(input=Decimal(1), output=Decimal(10), cache_read=Decimal("0.1"))
    assert play([ReplyCompleted("hi", used)], prices)[0].cost == Decimal("0.000072")


def test_what_is_spent_without_a_reply_is_recorded_with_the_next_or_with_the_end():
    spent = UsageReported(Usage(input=1, output=2), Decimal("0.25"))
    assert play(
        [spent, spent, ReplyCompleted("hi", Usage(output=1), Decimal(1)), spent, "finished"]
    ) == [
        AddMessage("assistant", "hi", tokens=Tokens(2, 5), cost=Decimal("1.5")),
        EndTurn("completed", tokens=Tokens(1, 2), cost=Decimal("0.25")),
    ]


def test_what_was_spent_until_a_tool_was_done_is_recorded_with_it_and_not_only_with_the_end():
    spent = UsageReported(Usage(input=1, output=2), Decimal("0.25"), "memory")
    used, ended = play([spent, ToolUsed("look", "", "seen"), "finished"])
    assert (used.role, used.tokens, used.cost) == ("tool", Tokens(1, 2), Decimal("0.25"))
    assert used.engine_state == "memory"
    assert (ended.tokens, ended.cost, ended.engine_state) == (Tokens(), 0, "")


def test_a_state_that_is_saved_is_not_replaced_by_one_from_before():
    spent = UsageReported(Usage(input=1), engine_state="before")
    saved, ended = play([spent, EngineStateSaved("after"), "finished"])
    assert saved == SaveEngineState("after")
    assert (ended.tokens, ended.engine_state) == (Tokens(1, 0), "")


@given(st.lists(result | ends), ends)
def test_every_cent_and_token_that_is_reported_is_recorded_exactly_once(steps, end):
    said = play([*steps, end])
    over = next(n for n, step in enumerate([*steps, end]) if _ends(step))
    spent = [step for step in steps[:over] if isinstance(step, ReplyCompleted | UsageReported)]
    shown = StreamDelta | StreamThinking | SaveEngineState
    booked = [one for one in said if not isinstance(one, shown)]
    assert sum((one.cost for one in booked), Decimal(0)) == sum(
        (step.cost or 0 for step in spent), Decimal(0)
    )
    assert sum(one.tokens.input for one in booked) == sum(one.usage.total_input for one in spent)


def _ends(step) -> bool:
    return isinstance(step, str | TurnFailed | RateLimited)


def test_tools_at_work_are_reported_when_the_turn_ends_before_them():
    look, shell = ToolStarted("look", "a"), ToolStarted("shell", "make")
    said = play([look, shell, ToolUsed("look", "a", "found"), "stopped"])
    assert said == [
        RecordToolStart(ToolUse(1, "look", "a")),
        RecordToolStart(ToolUse(2, "shell", "make")),
        AddMessage("tool", "a\n\nfound", tool="look", tool_use=1, report=ToolReport(1)),
        AddMessage(
            "tool",
            "make\n\nInterrupted.",
            tool="shell",
            tool_use=2,
            report=ToolReport(4, ok=False),
        ),
        EndTurn("stopped"),
    ]
    assert play([shell, ToolUsed("shell", "make", "done"), ReplyCompleted("ok"), "finished"])[
        3:
    ] == [EndTurn("completed")]


some_tools = st.builds(ToolStarted, st.sampled_from("ab"), st.sampled_from("xy"))
some_outcomes = st.builds(ToolUsed, st.sampled_from("ab"), st.sampled_from("xy"), st.just("done"))


@given(st.lists(some_tools | some_outcomes), st.sampled_from(["stopped", "interrupted", "failed"]))
def test_each_tool_that_begins_is_reported_to_have_ended_exactly_once(steps, end):
    said = play([*steps, end])
    begun = [one.use.number for one in said if isinstance(one, RecordToolStart)]
    assert begun == list(range(1, sum(isinstance(step, ToolStarted) for step in steps) + 1))
    ended = [one.tool_use for one in said if isinstance(one, AddMessage) and one.tool_use]
    assert sorted(ended) == begun
    outcomes = sum(isinstance(step, ToolUsed) for step in steps)
    assert sum(isinstance(one, AddMessage) and "done" in one.text for one in said) == outcomes


def test_what_a_note_of_a_beginning_keeps_is_bounded():
    *noted, _ = play([ToolStarted("shell", "x" * 9_000)] * (MOST_TOOLS_NOTED + 5) + ["finished"])
    noted = [one.use for one in noted if isinstance(one, RecordToolStart)]
    assert len(noted) == MOST_TOOLS_NOTED
    assert {use.input for use in noted} == {"x" * LONGEST_INPUT_NOTED + "…"}


def test_a_reply_that_was_cut_off_is_kept_as_far_as_it_was_reported():
    said = play([ReplyDelta("half a "), ReplyDelta("sentence"), "stopped"])
    assert said[2:] == [AddMessage("assistant", "half a sentence"), EndTurn("stopped")]
    assert play([ReplyDelta("whole"), ReplyCompleted("whole"), "finished"])[1:] == [
        AddMessage("assistant", "whole"),
        EndTurn("completed"),
    ]


def test_a_limit_defers_the_turn_and_is_its_end():
    assert play([RateLimited("too much", "2026-01-01T00:00:00.000Z"), ReplyCompleted("late")]) == [
        DeferTurn("too much", "2026-01-01T00:00:00.000Z")
    ]


def test_a_tool_is_said_with_its_name_what_it_was_given_and_what_came_of_it():
    assert play([ToolUsed("look", "here", "3 files")]) == [
        AddMessage("tool", "here\n\n3 files", tool="look", report=ToolReport(4))
    ]
    assert play([ToolUsed("look", "", "", ok=False, diff="d")]) == [
        AddMessage("tool", "", tool="look", report=ToolReport(0, ok=False, diff="d"))
    ]


def test_a_tool_is_reported_with_the_time_it_took():
    seconds = iter([10.0, 12.0, 15.5, 20.0])
    turn = TurnMachine(now=lambda: next(seconds))
    steps = [
        ToolStarted("a", "1"),
        ToolStarted("b", "2"),
        ToolUsed("b", "2", ""),
        ToolUsed("a", "1", ""),
    ]
    said = [one for step in steps for one in turn.handle(step) if isinstance(one, AddMessage)]
    assert [(one.tool, one.report.seconds) for one in said] == [("b", 3.5), ("a", 10.0)]


def test_how_each_end_comes_out():
    assert play([ReplyCompleted("hi"), "finished"])[-1] == EndTurn("completed")
    assert play(["finished"]) == [EndTurn("failed", SILENT)]
    assert play([ToolUsed("look", "", ""), "finished"])[-1] == EndTurn("failed", SILENT)
    assert play([ReplyCompleted("hi"), TurnFailed("no more")])[-1] == EndTurn("failed", "no more")
    assert play(["failed"]) == [EndTurn("failed", "broke down")]
    assert play([ReplyCompleted("hi"), "interrupted"])[-1] == EndTurn("interrupted", "broke down")
    assert play([ReplyCompleted("hi"), "stopped"])[-1] == EndTurn("stopped")


def test_a_reply_without_an_end_ends_the_turn():
    piece = "x" * (LONGEST_REPLY // 2)
    said = play([ReplyDelta(piece), ReplyDelta(piece), ReplyDelta("y"), ReplyDelta("z")])
    assert said == [
        StreamDelta(piece),
        StreamDelta(piece),
        AddMessage("assistant", piece + piece + "y"),
        EndTurn("failed", ENDLESS),
    ]
    assert play([ReplyDelta(piece), ReplyCompleted("whole"), ReplyDelta(piece), ReplyDelta(piece)])[
        -1
    ] == StreamDelta(piece)


def test_thinking_is_shown_and_never_recorded():
    said = play([ThinkingProgress("Which?"), ReplyCompleted("That."), "finished"])
    assert said[0] == StreamThinking("Which?")
    assert [one.text for one in said if isinstance(one, AddMessage)] == ["That."]


def test_a_turn_that_only_thought_ended_without_a_reply():
    *_, end = play([ThinkingProgress("Which?"), "finished"])
    assert isinstance(end, EndTurn)
    assert end.outcome == "failed"


def test_endless_thinking_is_shown_up_to_a_length_and_anew_after_a_tool():
    piece = "x" * (LONGEST_THINKING - 2)
    flood = [ThinkingProgress(piece), ThinkingProgress("12345"), ThinkingProgress("6")]
    said = play([*flood, ToolUsed("look", "", ""), *flood, ReplyCompleted("So."), "finished"])
    shown = [one.text for one in said if isinstance(one, StreamThinking)]
    assert shown == [piece, "12", piece, "12"]


@pytest.mark.parametrize(
    "work", [ToolStarted("look", "b"), ReplyDelta("I"), ApprovalRequested()], ids=type
)
def test_a_turn_over_its_budget_does_nothing_more(work: EngineEvent) -> None:
    turn = TurnMachine(budget=Decimal("0.5"))
    reply = ReplyCompleted("I look.", cost=Decimal("0.2"))
    said = [*turn.handle(reply), *turn.handle(ToolStarted("look", "a"))]
    said += [
        *turn.handle(ToolUsed("look", "a", "b")),
        *turn.handle(UsageReported(cost=Decimal("0.3"))),
    ]
    assert not turn.over
    assert turn.ends_at(work)
    (end,) = turn.handle(work)
    why = "The turn was ended: it cost 0.5 USD, its limit is 0.5 USD."
    assert end == EndTurn("failed", why, cost=Decimal("0.3"))
    assert list(turn.finish()) == []


def test_a_turn_whose_last_words_pass_its_budget_is_completed() -> None:
    turn = TurnMachine(budget=Decimal("0.5"))
    said = [*turn.handle(ReplyCompleted("Done.", cost=Decimal(2))), *turn.finish()]
    assert [type(one) for one in said] == [AddMessage, EndTurn]
    assert said[-1].outcome == "completed"


def test_what_a_sub_agent_uses_names_the_use_that_started_it() -> None:
    agents = [ToolStarted("agent", "a", "x"), ToolStarted("agent", "b", "y")]
    inner = [ToolStarted("look", "1", parent="y"), ToolUsed("look", "1", "", parent="y")]
    said = play([*agents, *inner, ToolUsed("agent", "b", "done", id="y"), "stopped"])
    used = [(one.text, one.tool_use, one.report) for one in said if isinstance(one, AddMessage)]
    assert used == [
        ("1", 3, ToolReport(1, parent=2)),
        ("b\n\ndone", 2, ToolReport(1, number=2)),
        ("a\n\nInterrupted.", 1, ToolReport(1, ok=False, number=1)),
    ]
    started = [one.use.parent for one in said if isinstance(one, RecordToolStart)]
    assert started == [0, 0, 2]
