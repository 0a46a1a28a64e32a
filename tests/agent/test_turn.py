"""Whatever an engine tells in whatever order, a turn has exactly one end, and nothing after it."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.engine import Failed, Limited, Replied, Spent, ToolStarted, ToolUsed, Wrote
from agentd.agent.turn import (
    ENDLESS,
    LONGEST_REPLY,
    SILENT,
    Defer,
    End,
    Instruction,
    Keep,
    Say,
    Show,
    Turn,
)
from agentd.chats.chat import Tokens
from agentd.proxy.price import Prices, Usage

money = st.decimals(0, 9, places=6)
whole = st.one_of(
    st.builds(ToolUsed, st.just("look"), st.text(max_size=3), st.text(max_size=3)),
    st.builds(Replied, st.text(max_size=3), st.builds(Usage, st.integers(0, 9)), money),
)
told = st.one_of(
    st.builds(Wrote, st.text(max_size=3)),
    st.builds(Spent, st.builds(Usage, st.integers(0, 9)), money),
    st.builds(Limited, st.just("too much")),
    whole,
    st.builds(Failed, st.just("why")),
)
ends = st.sampled_from(["finished", "failed", "stopped", "interrupted"])


def play(steps, prices: Prices | None = None) -> list[Instruction]:
    turn, said = Turn(prices), []
    for step in steps:
        if step == "finished":
            said += turn.finished()
        elif step == "stopped":
            said += turn.stopped()
        elif step in ("failed", "interrupted"):
            said += getattr(turn, step)("broke down")
        else:
            said += turn.handle(step)
    assert turn.over == any(isinstance(one, End | Defer) for one in said)
    return said


@given(st.lists(told | ends), ends)
def test_the_end_comes_exactly_once_and_last(steps, end):
    *before, last = play([*steps, end])
    assert isinstance(last, End | Defer)
    assert not any(isinstance(one, End | Defer) for one in before)


@given(st.lists(told))
def test_without_an_end_there_is_none_but_by_failing(steps):
    ended = any(isinstance(one, End | Defer) for one in play(steps))
    assert ended == any(isinstance(step, Failed | Limited) for step in steps)


@given(st.lists(whole))
def test_everything_told_is_said_in_order(steps):
    said = play(steps)
    assert [one.role for one in said] == [
        "tool" if isinstance(step, ToolUsed) else "assistant" for step in steps
    ]


def test_a_reply_is_said_with_its_tokens_and_cost():
    used = Usage(input=1, cache_read=10, output=2, reasoning=5)
    assert play([Replied("hi", used, Decimal("0.5"))]) == [
        Say("assistant", "hi", tokens=Tokens(11, 7), cost=Decimal("0.5"))
    ]
    prices = Prices(input=Decimal(1), output=Decimal(10), cache_read=Decimal("0.1"))
    assert play([Replied("hi", used)], prices)[0].cost == Decimal("0.000072")


def test_what_is_spent_without_a_reply_is_booked_with_the_next_or_with_the_end():
    spent = Spent(Usage(input=1, output=2), Decimal("0.25"))
    assert play([spent, spent, Replied("hi", Usage(output=1), Decimal(1)), spent, "finished"]) == [
        Say("assistant", "hi", tokens=Tokens(2, 5), cost=Decimal("1.5")),
        End("completed", tokens=Tokens(1, 2), cost=Decimal("0.25")),
    ]


@given(st.lists(told | ends), ends)
def test_every_cent_and_token_that_is_told_is_booked_exactly_once(steps, end):
    said = play([*steps, end])
    over = next(n for n, step in enumerate([*steps, end]) if _ends(step))
    spent = [step for step in steps[:over] if isinstance(step, Replied | Spent)]
    assert sum((one.cost for one in said if not isinstance(one, Show | Keep)), Decimal(0)) == sum(
        (step.cost or 0 for step in spent), Decimal(0)
    )
    booked = [one.tokens for one in said if not isinstance(one, Show | Keep)]
    assert sum(tokens.input for tokens in booked) == sum(one.usage.total_input for one in spent)


def _ends(step) -> bool:
    return isinstance(step, str | Failed | Limited)


def test_tools_at_work_are_told_when_the_turn_ends_before_them():
    look, shell = ToolStarted("look", "a"), ToolStarted("shell", "make")
    said = play([look, shell, ToolUsed("look", "a", "found"), "stopped"])
    assert said == [
        Say("tool", "a\n\nfound", tool="look"),
        Say("tool", "make\n\nInterrupted.", tool="shell"),
        End("stopped"),
    ]
    assert play([shell, ToolUsed("shell", "make", "done"), Replied("ok"), "finished"])[2:] == [
        End("completed")
    ]


def test_a_reply_that_was_cut_off_is_kept_as_far_as_it_was_told():
    said = play([Wrote("half a "), Wrote("sentence"), "stopped"])
    assert said[2:] == [Say("assistant", "half a sentence"), End("stopped")]
    assert play([Wrote("whole"), Replied("whole"), "finished"])[1:] == [
        Say("assistant", "whole"),
        End("completed"),
    ]


def test_a_limit_defers_the_turn_and_is_its_end():
    assert play([Limited("too much", "2026-01-01T00:00:00.000Z"), Replied("late")]) == [
        Defer("too much", "2026-01-01T00:00:00.000Z")
    ]


def test_a_tool_is_said_with_its_name_what_it_was_given_and_what_came_of_it():
    assert play([ToolUsed("look", "here", "3 files")]) == [
        Say("tool", "here\n\n3 files", tool="look")
    ]
    assert play([ToolUsed("look", "", "")]) == [Say("tool", "", tool="look")]


def test_how_each_end_comes_out():
    assert play([Replied("hi"), "finished"])[-1] == End("completed")
    assert play(["finished"]) == [End("failed", SILENT)]
    assert play([ToolUsed("look", "", ""), "finished"])[-1] == End("failed", SILENT)
    assert play([Replied("hi"), Failed("no more")])[-1] == End("failed", "no more")
    assert play(["failed"]) == [End("failed", "broke down")]
    assert play([Replied("hi"), "interrupted"])[-1] == End("interrupted", "broke down")
    assert play([Replied("hi"), "stopped"])[-1] == End("stopped")


def test_a_reply_without_an_end_ends_the_turn():
    piece = "x" * (LONGEST_REPLY // 2)
    said = play([Wrote(piece), Wrote(piece), Wrote("y"), Wrote("z")])
    assert said == [
        Show(piece),
        Show(piece),
        Say("assistant", piece + piece + "y"),
        End("failed", ENDLESS),
    ]
    assert play([Wrote(piece), Replied("whole"), Wrote(piece), Wrote(piece)])[-1] == Show(piece)
