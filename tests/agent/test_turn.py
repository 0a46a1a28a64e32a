"""Whatever an engine tells in whatever order, a turn has exactly one end, and nothing after it."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.engine import Failed, Replied, ToolUsed
from agentd.agent.turn import SILENT, End, Say, Turn
from agentd.chats.chat import Tokens

told = st.one_of(
    st.builds(ToolUsed, st.just("look"), st.text(max_size=3), st.text(max_size=3)),
    st.builds(Replied, st.text(max_size=3)),
    st.builds(Failed, st.just("why")),
)
ends = st.sampled_from(["finished", "failed", "stopped"])


def play(steps) -> list[Say | End]:
    turn, said = Turn(), []
    for step in steps:
        if step == "finished":
            said += turn.finished()
        elif step in ("failed", "stopped"):
            said += getattr(turn, step)("broke down")
        else:
            said += turn.handle(step)
    assert turn.over == any(isinstance(one, End) for one in said)
    return said


@given(st.lists(told | ends), ends)
def test_the_end_comes_exactly_once_and_last(steps, end):
    *before, last = play([*steps, end])
    assert isinstance(last, End)
    assert not any(isinstance(one, End) for one in before)


@given(st.lists(told))
def test_without_an_end_there_is_none_but_by_failing(steps):
    ended = any(isinstance(one, End) for one in play(steps))
    assert ended == any(isinstance(step, Failed) for step in steps)


@given(st.lists(told.filter(lambda step: not isinstance(step, Failed))))
def test_everything_told_is_said_in_order(steps):
    said = play(steps)
    assert [one.role for one in said] == [
        "tool" if isinstance(step, ToolUsed) else "assistant" for step in steps
    ]


def test_a_reply_is_said_with_its_tokens_and_cost():
    assert play([Replied("hi", Tokens(1, 2), Decimal("0.5"))]) == [
        Say("assistant", "hi", tokens=Tokens(1, 2), cost=Decimal("0.5"))
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
    assert play([Replied("hi"), "stopped"])[-1] == End("interrupted", "broke down")
