"""What is added to what an editor shows: nothing twice, whatever was missed."""

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentd.acp.transcript import Transcript

WORDS = st.lists(st.text("abc ", min_size=1, max_size=3), min_size=1, max_size=8)


class Shown:
    """A transcript and the updates that it sent."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.transcript = Transcript(self.updates.append, "/project", "run")

    @property
    def texts(self) -> list[str]:
        """The messages of the agent, put together as an editor does."""
        found: dict[str, str] = {}
        for one in self.updates:
            if one["sessionUpdate"] == "agent_message_chunk":
                number = one["messageId"]
                found[number] = found.get(number, "") + one["content"]["text"]
        return list(found.values())


def make_reply(number: int, text: str) -> dict[str, Any]:
    """Return a message of the agent as the API gives it."""
    return {"id": number, "role": "assistant", "content": text, "tool": "", "toolUse": None}


def make_tool(number: int, tool: str, outcome: str = "", **more: Any) -> dict[str, Any]:
    """Return a tool's message as the API gives it."""
    use = {"input": "path=a.py", "outcome": outcome, "ok": True, "seconds": 0.1, "diff": ""}
    return {"id": number, "role": "tool", "tool": tool, "content": "", "toolUse": use | more}


def make_use(number: int, tool: str, given: str = "path=a.py") -> dict[str, Any]:
    """Return a tool at work as the API gives it."""
    return {"number": number, "name": tool, "input": given, "parent": 0}


def count_pieces(words: list[str]) -> Iterator[tuple[str, int]]:
    """Yield the pieces with their numbers."""
    return ((word, number) for number, word in enumerate(words, 1))


@given(WORDS, st.integers(0, 8), st.integers(0, 8))
def test_a_reply_is_shown_once_wherever_the_connection_broke(
    words: list[str], lost: int, read: int
) -> None:
    """Pieces are lost from ``lost`` to ``read``, where the growing reply is read instead."""
    shown = Shown()
    for word, number in count_pieces(words):
        if number <= lost:
            assert shown.transcript.show_delta(1, word, number)
    read = min(read, len(words))
    shown.transcript.show_running(1, "".join(words[:read]), read)
    for word, number in count_pieces(words):
        if number > max(lost, read):
            assert shown.transcript.show_delta(1, word, number)
    shown.transcript.show_message(make_reply(5, "".join(words)))
    assert shown.texts == ["".join(words)]


@given(WORDS, WORDS, st.booleans())
def test_a_reply_that_is_given_again_after_a_crash_is_continued(
    words: list[str], others: list[str], same: bool
) -> None:
    shown = Shown()
    for word, number in count_pieces(words):
        shown.transcript.show_delta(1, word, number)
    again = [*words, *others] if same else ["x", *others]
    for word, number in count_pieces(again):
        shown.transcript.show_delta(2, word, number)
    shown.transcript.show_message(make_reply(5, "".join(again)))
    assert shown.texts == (["".join(again)] if same else ["".join(words), "".join(again)])


def test_missing_pieces_are_noticed() -> None:
    shown = Shown()
    assert shown.transcript.show_delta(1, "a", 1)
    assert not shown.transcript.show_delta(1, "c", 3)
    assert shown.transcript.show_delta(1, "a", 1)
    assert shown.texts == ["a"]


def test_buttons_are_left_out() -> None:
    shown = Shown()
    shown.transcript.show_message(make_reply(1, "Go on?\n\n[[Yes]] [[No]]"))
    assert shown.texts == ["Go on?"]


def test_the_outcome_belongs_to_the_call_that_began() -> None:
    shown = Shown()
    shown.transcript.show_running_tools([make_use(1, "edit_file")])
    shown.transcript.show_message(make_tool(1, "edit_file"))
    shown.transcript.show_message(make_tool(2, "edit_file"))
    begun, known, new = shown.updates
    assert known["sessionUpdate"] == "tool_call_update"
    assert known["toolCallId"] == begun["toolCallId"]
    assert new["sessionUpdate"] == "tool_call"
    assert new["locations"] == [{"path": "/project/a.py"}]
    shown.transcript.show_running_tools([make_use(2, "shell", "command=ls")])
    shown.transcript.end_turn(failed=True)
    assert shown.updates[-1]["status"] == "failed"


def test_a_call_that_has_ended_before_its_beginning_is_read_is_not_begun_again() -> None:
    shown = Shown()
    shown.transcript.show_message(make_tool(1, "read_file"))
    shown.transcript.show_running_tools([])
    shown.transcript.show_running_tools([make_use(2, "shell"), make_use(3, "read_file")])
    shown.transcript.show_running_tools([make_use(3, "read_file")])
    shown.transcript.end_turn(failed=False)
    ids = [one["toolCallId"] for one in shown.updates if one["sessionUpdate"] == "tool_call"]
    assert ids == ["message-1", "call-run-1", "call-run-2"]


def test_of_calls_of_one_tool_the_outcome_goes_to_the_one_with_its_input() -> None:
    shown = Shown()
    uses = [make_use(1, "read_file", "path=a.py"), make_use(2, "read_file", "path=my notes.txt")]
    shown.transcript.show_running_tools(uses)
    shown.transcript.show_message(make_tool(5, "read_file", input="path=my notes.txt"))
    first, second, ended = shown.updates
    assert (first["title"], second["title"]) == ("read_file path=a.py", ended["title"])
    assert ended["toolCallId"] == second["toolCallId"]
    assert ended["locations"] == [{"path": "/project/my notes.txt"}]


def test_a_call_that_was_asked_about_before_it_is_told_is_one_call() -> None:
    shown = Shown()
    question = {"id": 7, "tool": "shell", "subject": "ls"}
    call_id, begun = shown.transcript.calls.ask(question)
    assert begun and begun["toolCallId"] == call_id
    shown.transcript.show_running_tools([make_use(1, "shell", "command=ls")])
    shown.transcript.show_message(make_tool(5, "shell", input="command=ls"))
    assert [(one["sessionUpdate"], one["toolCallId"]) for one in shown.updates] == [
        ("tool_call_update", call_id),
        ("tool_call_update", call_id),
    ]


def test_an_answer_is_no_call_of_its_own_but_what_nobody_was_asked_is_told() -> None:
    shown = Shown()
    told = {"role": "tool", "tool": "decision", "content": "Allowed by anna.", "toolUse": None}
    shown.transcript.show_message({"id": 5, "decision": {"question": 4}, **told})
    assert not shown.updates
    shown.transcript.show_message({"id": 6, "decision": {"question": 0}, **told})
    assert len(shown.updates) == 1


def test_thinking_is_shown_apart_and_no_piece_twice() -> None:
    shown = Shown()
    for turn, text, number in ((1, "Which ", 1), (1, "Which ", 1), (1, "file?", 2), (2, "So.", 1)):
        shown.transcript.show_thinking(turn, text, number)
    assert [(one["sessionUpdate"], one["content"]["text"]) for one in shown.updates] == [
        ("agent_thought_chunk", "Which "),
        ("agent_thought_chunk", "file?"),
        ("agent_thought_chunk", "So."),
    ]
    assert shown.texts == []
