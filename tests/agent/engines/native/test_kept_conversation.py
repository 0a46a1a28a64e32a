"""The next turn's model knows all that the turns before it saw, also after a stop or a crash."""

import asyncio
import json
from contextlib import aclosing
from pathlib import Path

import pytest

from agentd.agent.engine import RateLimited, ToolStarted, ToolUsed, TurnRequest, UsageReported
from agentd.agent.engines.native.engine import COMPACT
from agentd.chats.model import Message
from agentd.llm.upstream.client import HttpUpstream
from tests.agent.engines.native.scene import Scene, join_deltas, list_used_tools, read_replies
from tests.conftest import until
from tests.supplier.steps import Answer, Call, Refuse, Say, Stall, Think, Tokens
from tests.supplier.supplier import Supplier

DIALECTS = ("openai-chat", "openai-responses", "anthropic")


@pytest.fixture
def supplier():
    with Supplier() as it:
        yield it


@pytest.fixture
def scene(tmp_path: Path, supplier) -> Scene:
    root = tmp_path / "work"
    root.mkdir()
    (root / "notes.txt").write_text("the answer is forty-two\n")
    return Scene(root, supplier, kept=tmp_path / "state")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_follow_up_is_asked_with_the_same_beginning_byte_for_byte(scene, supplier, dialect):
    scene.dialect = dialect
    look = [Say("I look."), Call("read_file", {"path": "notes.txt"})]
    if dialect != "openai-chat":  # which takes back only the thinking of the running turn
        look.insert(0, Think("Look."))
    supplier.script(look, Say("I read it."), Say("Forty-two."))
    scene.run("Read it.", message=1)
    scene.run("What is the answer?", message=5)
    first, follow_up = supplier.requests[1].body, supplier.requests[2].body
    key = "input" if dialect == "openai-responses" else "messages"
    before, after = (json.dumps(drop_cache_marks(body[key])) for body in (first, follow_up))
    assert after.startswith(before[:-1])
    assert "the answer is forty-two" in after and "I read it." in after
    assert first["tools"] == follow_up["tools"]
    for part in ("system", "instructions"):
        assert first.get(part) == follow_up.get(part)


def drop_cache_marks(content):
    """Return the messages without Anthropic's cache marks, which move on."""
    if isinstance(content, list):
        return [drop_cache_marks(one) for one in content]
    if isinstance(content, dict):
        return {
            key: drop_cache_marks(one) for key, one in content.items() if key != "cache_control"
        }
    return content


def test_without_its_file_a_chat_goes_on_from_the_history(scene, supplier):
    scene.kept = None
    supplier.script(Call("read_file", {"path": "notes.txt"}), Say("I read it."), Say("Yes?"))
    scene.run("Read it.", message=1)
    history = (Message(1, "user", "Read it.", "t"), Message(3, "assistant", "I read it.", "t"))
    scene.run("And?", message=5, history=history)
    assert "I read it." in json.dumps(supplier.requests[2].turns)


def test_a_stopped_turn_is_known_with_what_it_did(scene, supplier):
    supplier.script(
        [
            Call("write_file", {"path": "done.txt", "text": "x"}),
            Call("shell", {"command": "sleep 60"}),
        ],
        Say("I know."),
    )

    async def run() -> None:
        upstream = HttpUpstream()
        request = TurnRequest(1, "Go.", model="large", supplier="acme", message=1)

        async def run_turn() -> None:
            async with aclosing(scene.build_engine(upstream).run(request, scene.person)) as told:
                async for event in told:
                    if isinstance(event, ToolStarted) and event.name == "shell":
                        begun.set()

        begun = asyncio.Event()
        task = asyncio.create_task(run_turn())
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])
        await upstream.close()

    asyncio.run(run())
    stopped = Message(4, "tool", "The turn was stopped by a person.", "t", tool="stop")
    assert read_replies(scene.run("Why?", message=5, history=(stopped,))) == ["I know."]
    told = json.dumps(supplier.requests[1].turns)
    assert "new file, 1 line written" in told
    assert "Interrupted: there is no result" in told
    assert "The person stopped the turn" in json.dumps(supplier.requests[1].turns)
    assert supplier.requests[1].prompt.endswith("Why?")


def test_what_was_written_of_a_stopped_reply_is_known(scene, supplier):
    stall = Stall(6)
    supplier.script(
        Answer((Say("one two three four five six seven"),), faults=(stall,)), Say("Ok.")
    )

    async def run() -> None:
        turn = asyncio.create_task(scene.collect_events("Go.", message=1))
        await asyncio.wrap_future(stall.reached)
        await until(lambda: "one two" in join_deltas(scene.so_far))
        turn.cancel()
        await asyncio.wait([turn])

    asyncio.run(run())
    scene.run("Go on.", message=3)
    assert "one two" in json.dumps(supplier.requests[1].turns)


def test_a_killed_turn_leaves_what_it_did(scene, supplier):
    """A killed daemon runs nothing more: what stands in the file then is all that there is."""
    supplier.script(
        Call("write_file", {"path": "done.txt", "text": "x"}),
        Call("shell", {"command": "true"}),
        Say("I know."),
    )
    kill_in_the_shell(scene)
    scene.run("What did you do?", message=5)
    told = json.dumps(supplier.requests[2].turns)
    assert "new file" in told and "Interrupted" in told and "exit code" not in told


def kill_in_the_shell(scene) -> None:
    """Leave what a daemon leaves that is killed while the first turn runs a command line."""

    async def run() -> bytes:
        upstream = HttpUpstream()
        request = TurnRequest(1, "Go.", model="large", supplier="acme", message=1)
        async with aclosing(scene.build_engine(upstream).run(request, scene.person)) as told:
            async for event in told:
                if isinstance(event, ToolStarted) and event.name == "shell":
                    left = path.read_bytes()
                    break
        await upstream.close()
        return left

    path = scene.kept / "chats" / "1" / "native.jsonl"
    left = asyncio.run(run())
    path.write_bytes(left)


def test_a_chat_whose_turn_was_killed_is_summed_up_and_goes_on(scene, supplier):
    (scene.root / "long.txt").write_text("".join(f"{'w' * 90} {n}\n" for n in range(400)))
    read = Answer((Call("read_file", {"path": "long.txt"}),), usage=None)
    command = Call("shell", {"command": "true"})
    supplier.script(command, read, read, Say("A summary."), Say("Done."), Say("Still here."))
    kill_in_the_shell(scene)
    told = scene.run("What did you do?", context=32_000, message=5)
    assert (COMPACT, "A summary.") in list_used_tools(told)
    assert read_replies(told) == ["Done."]
    assert read_replies(scene.run("And now?", message=9)) == ["Still here."]


def test_a_turn_that_a_limit_ended_goes_on_without_its_prompt_twice(scene, supplier):
    later = Refuse(429, "Later.", headers={"Retry-After": "3600"})
    supplier.script(Call("read_file", {"path": "notes.txt"}), later, Say("Done."))
    assert isinstance(scene.run("Read it.", message=1)[-1], RateLimited)
    assert read_replies(scene.run("Read it.", message=1, is_retry=True)) == ["Done."]
    assert supplier.requests[1].turns == supplier.requests[2].turns


def test_a_full_context_is_summed_up_and_the_summary_goes_on(scene, supplier):
    (scene.root / "long.txt").write_text("".join(f"{'w' * 90} {n}\n" for n in range(400)))
    read = [Answer((Call("read_file", {"path": "long.txt"}),), usage=None) for _ in range(2)]
    summary = Answer((Say("We read long.txt; 399 lines."),), usage=Tokens(input=900, output=30))
    supplier.script(*read, summary, Say("Done."), Say("Still known."))
    told = scene.run("Read it well.", context=32_000, message=1)
    assert read_replies(told) == ["Done."]
    (compacted,) = [one for one in told if isinstance(one, ToolUsed) and one.name == COMPACT]
    assert compacted.ok and compacted.outcome == "We read long.txt; 399 lines."
    assert any(isinstance(one, UsageReported) and one.usage.output == 30 for one in told)
    asked, after = supplier.requests[2], supplier.requests[3]
    assert "Write a\nsummary" in asked.prompt and asked.body["tool_choice"] == "none"
    assert json.dumps(supplier.requests[1].turns)[:-1] in json.dumps(asked.turns)
    assert "We read long.txt" in json.dumps(after.turns) and "Read it well." in json.dumps(
        after.turns
    )
    assert len(json.dumps(after.turns)) < len(json.dumps(asked.turns)) / 2
    scene.run("And now?", context=32_000, message=9)
    follow_up = json.dumps(supplier.requests[4].turns)
    assert follow_up.startswith(json.dumps(after.turns)[:-1])


@pytest.mark.parametrize("calls", [False, True])
def test_anthropic_is_asked_for_a_summary_so_that_its_cache_of_the_messages_holds(
    scene, supplier, calls
):
    scene.dialect = "anthropic"
    (scene.root / "long.txt").write_text("".join(f"{'w' * 90} {n}\n" for n in range(400)))
    read = Call("read_file", {"path": "long.txt"})
    asked = Answer((read,), usage=None)
    called = [Answer((Say("I look."), read), usage=Tokens(input=700, output=20))] if calls else []
    supplier.script(asked, asked, *called, Say("A summary."), Say("Done."))
    told = scene.run("Read it well.", context=32_000, message=1)
    assert read_replies(told) == ["Done."]
    assert (COMPACT, "A summary.") in list_used_tools(told)
    before, summary, *later = (request.body for request in supplier.requests[1:])
    prefix = json.dumps(drop_cache_marks(before["messages"]))[:-2]
    assert json.dumps(drop_cache_marks(summary["messages"])).startswith(prefix)
    assert {**summary, "messages": None} == {**before, "messages": None}
    assert [one.get("tool_choice") for one in later] == [{"type": "none"}] * calls + [None]
    spent = [one.usage.output for one in told if isinstance(one, UsageReported)]
    assert (20 in spent) == calls, "also what did not help is paid"


def test_where_no_summary_can_be_had_the_oldest_results_are_left_out(scene, supplier):
    (scene.root / "long.txt").write_text("".join(f"{'w' * 90} {n}\n" for n in range(400)))
    read = [Answer((Call("read_file", {"path": "long.txt"}),), usage=None) for _ in range(2)]
    supplier.script(*read, Refuse(400, "No."), Say("Done."))
    told = scene.run(context=32_000)
    assert read_replies(told) == ["Done."]
    assert list_used_tools(told)[-1][1].startswith("failed: there is no summary")
