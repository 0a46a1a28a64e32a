"""The native engine, end to end: a real folder, real commands, a scripted supplier over HTTP."""

import asyncio
import base64
import json
from contextlib import aclosing
from decimal import Decimal
from pathlib import Path

import pytest

from agentd.agent.engine import (
    ApprovalAnswer,
    Question,
    ReplyCompleted,
    ThinkingProgress,
    ToolStarted,
    ToolUsed,
    TurnFailed,
    TurnRequest,
    UsageReported,
)
from agentd.agent.engines.native import trimming
from agentd.agent.engines.native.attachments import LEFT_OUT
from agentd.agent.engines.native.job import TimedApprover
from agentd.agent.engines.native.supplier import MOST_TRIMS
from agentd.agent.engines.native.turn import TurnLimits
from agentd.agent.tools.files import FolderWorkspace
from agentd.agent.tools.model import TOOLS, ReadFile
from agentd.agent.tools.results import FileText
from agentd.chats.model import Message
from agentd.core.clock import FrozenClock
from agentd.llm.price import NO_USAGE, Usage
from agentd.llm.upstream.client import HttpUpstream
from tests.agent.engines.native.scene import (
    KEY,
    Person,
    Scene,
    join_deltas,
    list_started_tools,
    list_used_tools,
    read_replies,
)
from tests.supplier.steps import Answer, Call, Made, Refuse, Say, Think, Tokens, say_in_one_event
from tests.supplier.supplier import Supplier

DIALECTS = ("openai-chat", "openai-responses", "anthropic")
PDF = b"%PDF-1.7\n" + bytes(9)


def add_upload(root: Path) -> str:
    """Upload an image, and return it as requests have it."""
    (root / "uploads").mkdir()
    image = b"\x89PNG\r\n\x1a\n" + bytes(9)
    (root / "uploads" / "shot.png").write_bytes(image)
    return base64.b64encode(image).decode()


def run_turns(scene: Scene, assignment: TurnRequest, times: int = 2) -> None:
    """Run a prompt several times in one engine."""

    async def run() -> None:
        upstream = HttpUpstream()
        engine = scene.build_engine(upstream)
        for _ in range(times):
            async with aclosing(engine.run(assignment, scene.person)) as told:
                assert [one async for one in told]
        await upstream.close()

    asyncio.run(run())


@pytest.fixture
def supplier():
    with Supplier() as it:
        yield it


@pytest.fixture
def root(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    (work / "state").mkdir(parents=True)
    (work / ".git").mkdir()
    (work / "kettle.py").write_text("def boil():\n    return 90\n")
    (work / "notes.md").write_text("Tea.\n")
    return work


@pytest.fixture
def scene(root, supplier) -> Scene:
    return Scene(root, supplier)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_file_is_read_and_edited_in_every_dialect(scene, root, supplier, dialect):
    scene.dialect = dialect
    supplier.script(
        [Think("Look first."), Say("I look."), Call("read_file", {"path": "kettle.py"})],
        [
            Say("So I mend it."),
            Call("edit_file", {"path": "kettle.py", "old": "90", "new": "100"}),
        ],
        Answer((Say("It boils at 100 now."),), usage=Tokens(input=1000, cached=500, output=20)),
    )
    told = scene.run("Mend it.")
    assert (root / "kettle.py").read_text() == "def boil():\n    return 100\n"
    assert read_replies(told) == ["I look.", "So I mend it.", "It boils at 100 now."]
    assert join_deltas(told) == "I look.So I mend it.It boils at 100 now."
    assert list_used_tools(told) == [("read_file", "2 of 2 lines"), ("edit_file", "1 place edited")]
    diff = "--- a/kettle.py\n+++ b/kettle.py\n@@ -1,2 +1,2 @@\n def boil():\n-    return 90\n"
    diff += "+    return 100"
    assert scene.person.asked == [
        Question("write", "edit_file", "kettle.py", "So I mend it.", diff=diff)
    ]
    assert [step.diff for step in told if isinstance(step, ToolUsed)] == ["", diff]
    reply = told[-1]
    assert isinstance(reply, ReplyCompleted)
    assert reply.usage == Usage(input=1000, cache_read=500, output=20)
    assert reply.cost == Decimal("0.0032")
    first, second, third = supplier.requests
    assert set(first.tools) == set(TOOLS)
    assert first.model == "large"
    assert first.prompt == "Mend it."
    assert KEY in first.headers.get("authorization", first.headers.get("x-api-key", ""))
    assert "2\t    return 90" in second.results[0].text
    assert "kettle.py: 1 place edited" in third.results[0].text


@pytest.mark.parametrize("dialect", DIALECTS)
def test_parallel_calls_are_answered_in_their_order(scene, supplier, dialect):
    scene.dialect = dialect
    supplier.script(
        [
            Call("read_file", {"path": "notes.md"}),
            Call("write_file", {"path": "new.txt", "text": "a\nb\n"}),
            Call("read_file", {"path": "new.txt"}),
            Call("shell", {"command": "cat new.txt; echo c >> new.txt"}),
            Call("shell", {"command": "cat new.txt"}),
        ],
        Say("Done."),
    )
    told = scene.run()
    outcomes = [
        ("read_file", "1 of 1 line"),
        ("write_file", "new file, 2 lines written"),
        ("read_file", "2 of 2 lines"),
        ("shell", "exit code 0, 2 lines\na\nb"),
        ("shell", "exit code 0, 3 lines\na\nb\nc"),
    ]
    assert list_used_tools(told) == outcomes
    assert list_started_tools(told) == [name for name, _ in outcomes]
    results = [result.text for result in supplier.requests[1].results]
    assert "1\tTea." in results[0]
    assert "1\ta\n2\tb" in results[2]
    assert results[4] == "exit code 0\na\nb\nc\n"
    calls = [result.call for result in supplier.requests[1].results]
    assert len(set(calls)) == 5


def test_those_that_only_read_are_done_beside_each_other(scene, root, supplier):
    class SimultaneousWorkspace(FolderWorkspace):
        """Lets nobody read before two want to."""

        def __init__(self) -> None:
            super().__init__(str(root))
            self.both = asyncio.Barrier(2)

        async def read_file(self, wanted: ReadFile) -> FileText:  # type: ignore[override]
            if wanted.path == "notes.md":
                await self.both.wait()
            return await super().read_file(wanted)

    scene.workspace = SimultaneousWorkspace()
    supplier.script([Call("read_file", {"path": "notes.md"})] * 2, Say("Done."))
    assert read_replies(scene.run()) == ["Done."]


def test_a_step_of_calls_alone_is_booked_without_a_reply(scene, supplier):
    supplier.script(
        Answer((Call("git_status"),), usage=Tokens(input=100, output=10)),
        Answer((Say("Done."),), usage=Tokens(input=200, output=20)),
    )
    told = scene.run()
    assert [progress for progress in told if isinstance(progress, UsageReported)] == [
        UsageReported(Usage(input=100, output=10), Decimal("0.0003"))
    ]
    assert told[-1] == ReplyCompleted("Done.", Usage(input=200, output=20), Decimal("0.0006"))


def test_a_supplier_that_tells_no_usage_or_a_model_without_prices_is_no_trouble(scene, supplier):
    supplier.script(Answer((Say("Hello."),), usage=None), Answer((Say("Hello."),)))
    assert scene.run()[-1] == ReplyCompleted("Hello.", NO_USAGE, None)
    scene.prices = None
    assert scene.run()[-1] == ReplyCompleted("Hello.", Usage(input=10, output=5), None)


def test_a_giant_piece_and_a_long_reply_come_whole(scene, supplier):
    supplier.script(say_in_one_event(2_000_000), Say("y" * 20_000, cut=3))
    assert read_replies(scene.run()) == ["x" * 2_000_000]
    told = scene.run()
    assert join_deltas(told) == "y" * 20_000 == read_replies(told)[0]


def test_what_the_project_and_the_chat_say_is_told(scene, root, supplier):
    (root / "AGENTS.md").write_text("Use tabs here.\n")
    supplier.script(Say("Yes."))
    history = (
        Message(1, "user", "What is this?", "t"),
        Message(2, "tool", "path=notes.md\n1 of 1 line", "t", tool="read_file"),
        Message(3, "assistant", "Notes about tea.", "t"),
    )
    scene.run("And now?", instructions="Speak like a pirate.", history=history)
    body = json.dumps(supplier.requests[0].body)
    for piece in ("Use tabs here.", "Speak like a pirate.", "Notes about tea.", "read_file: path"):
        assert piece in body
    roles = [turn["role"] for turn in supplier.requests[0].turns]
    assert roles == ["system", "user", "assistant", "user"]
    assert supplier.requests[0].prompt == "And now?"


def test_the_effort_is_asked_for(scene, supplier):
    supplier.script(Say("Yes."))
    scene.run(effort="low")
    assert supplier.requests[0].body["reasoning_effort"] == "low"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_was_not_allowed_is_told_to_the_model(scene, root, supplier, dialect):
    scene.dialect = dialect
    scene.person = Person("shell", "write", "outside")
    supplier.script(
        [
            Call("shell", {"command": "touch canary"}),
            Call("write_file", {"path": "canary", "text": "x"}),
            Call("write_file", {"path": "../canary", "text": "x"}),
        ],
        Say("I may not."),
    )
    told = scene.run()
    assert [outcome for _, outcome in list_used_tools(told)] == [
        "failed: This was not allowed: Not while I am at lunch."
    ] * 3
    assert [question.kind for question in scene.person.asked] == ["shell", "write", "outside"]
    assert scene.person.asked[2].subject == str(root.parent / "canary")
    for result in supplier.requests[1].results:
        assert "Not while I am at lunch" in result.text
    assert not list(root.parent.rglob("canary"))
    assert read_replies(told) == ["I may not."]


def test_hostile_paths_are_refused_and_the_model_reads_why(scene, root, supplier):
    (root / "up").symlink_to("..")
    paths = [".git/config", "state/keys", "sub/.git/hooks/x", "", "~/x", "/", "a\0b"]
    supplier.script(
        [Call("write_file", {"path": path, "text": "x"}) for path in paths]
        + [Call("read_file", {"path": path}) for path in ("../secret", "/etc/passwd", "up/x")],
        Say("No."),
    )
    told = scene.run()
    assert scene.person.asked == []
    assert len(list_used_tools(told)) == 10
    assert all(outcome.startswith("failed: ") for _, outcome in list_used_tools(told))
    assert sorted(path.name for path in root.iterdir()) == [
        ".git", "kettle.py", "notes.md", "state", "up",
    ]  # fmt: skip
    assert list((root / ".git").iterdir()) == []


def test_the_shell_sees_no_key_and_knows_its_turn(scene, supplier, monkeypatch):
    monkeypatch.setenv("ACME_API_KEY", KEY)
    supplier.script(Call("shell", {"command": "env"}), Say("Done."))
    scene.run(turn_tag="boot.1.7")
    said = supplier.requests[1].results[0].text
    assert KEY not in said
    assert "AGENTD_TURN=boot.1.7" in said


def test_a_call_that_is_none_is_explained_and_the_model_may_try_again(scene, supplier):
    supplier.script(
        [Call("read_file", '{"path": '), Call("raed_file", {}), Call("read_file", {"first": 2})],
        Call("read_file", {"path": "notes.md"}),
        Say("At last."),
    )
    told = scene.run()
    assert read_replies(told) == ["At last."]
    results = [result.text for result in supplier.requests[1].results]
    assert "arguments of read_file are wrong" in results[0]
    assert 'did you mean "read_file"' in results[1]
    assert "missing required field `path`" in results[2]


def test_useless_calls_in_a_row_end_the_turn(scene, supplier):
    scene.limits = TurnLimits(missteps=3)
    supplier.answer_always(lambda request: Call("read_file", "{"))
    told = scene.run()
    assert isinstance(told[-1], TurnFailed)
    assert "3 useless replies in a row" in told[-1].reason
    assert len(supplier.requests) == 3


def test_a_good_call_in_between_is_a_new_start(scene, supplier):
    scene.limits = TurnLimits(missteps=2)
    bad, good = Call("read_file", "{"), Call("git_status")
    supplier.script(bad, good, bad, good, Say("Done."))
    assert read_replies(scene.run()) == ["Done."]


def test_a_reply_that_was_cut_off_goes_on(scene, supplier):
    supplier.script(Answer((Say("One, two"),), finish="length"), Say("three."))
    assert read_replies(scene.run()) == ["One, two", "three."]
    assert "cut off at its length limit" in supplier.requests[1].prompt


def test_a_model_that_refuses_or_says_nothing_fails_the_turn(scene, supplier):
    supplier.script(Answer((Say("I"),), finish="content_filter"), Answer(()))
    refused = scene.run()[-1]
    assert isinstance(refused, TurnFailed)
    assert "refused to continue" in refused.reason
    assert scene.run()[-1] == TurnFailed("large ended the turn without a reply.")


def test_the_end_without_words_after_a_reply_is_a_good_end(scene, supplier):
    supplier.script([Say("I look."), Call("git_status")], Answer((), usage=None))
    told = scene.run()
    assert not isinstance(told[-1], TurnFailed)
    assert read_replies(told) == ["I look."]


def test_the_steps_of_a_turn_are_limited(scene, supplier):
    scene.limits = TurnLimits(steps=3)
    supplier.answer_always(lambda request: Call("git_status"))
    told = scene.run()
    assert told[-1] == TurnFailed(
        "The turn reached its limit of 3 steps. Send another prompt to continue."
    )
    assert len(supplier.requests) == 3


def test_the_money_of_a_turn_is_limited(scene, supplier):
    scene.limits = TurnLimits(cost=Decimal("0.01"))
    supplier.answer_always(lambda request: Answer((Call("git_status"),), usage=Tokens(input=2000)))
    told = scene.run()
    assert isinstance(told[-1], TurnFailed)
    assert "its limit of 0.01 USD (0.01215 USD)" in told[-1].reason
    assert len(supplier.requests) == 3


def test_a_limit_of_money_without_prices_is_refused_at_once(scene, supplier):
    scene.limits, scene.prices = TurnLimits(cost=Decimal(1)), None
    told = scene.run()
    assert isinstance(told[-1], TurnFailed)
    assert "price of large is not known" in told[-1].reason
    assert supplier.requests == []


def test_the_time_of_a_turn_is_limited_without_the_time_for_answers(scene, supplier):
    clock = FrozenClock()
    scene.clock, scene.limits = clock, TurnLimits(seconds=100)
    scene.person = Person(before=lambda: clock.move(10_000))

    def answer_slowly(request) -> Call:
        clock.move(30)
        return Call("shell", {"command": "true"})

    supplier.answer_always(answer_slowly)
    told = scene.run()
    assert isinstance(told[-1], TurnFailed)
    assert "limit of 100 seconds" in told[-1].reason
    assert len(supplier.requests) == 4


def test_the_time_of_a_turn_stands_still_while_a_question_of_one_of_its_helpers_is_open():
    clock = FrozenClock()
    during: list[float] = []

    def think_long() -> None:
        clock.move(10_000)
        during.append(watch.seconds)

    watch = TimedApprover(Person(before=think_long), clock)
    clock.move(5)
    asyncio.run(watch.ask(Question("shell", "shell", "make")))
    clock.move(7)
    assert (during, watch.seconds) == ([5.0], 12.0)


def test_what_is_missing_is_told_before_anything_is_asked(scene, supplier, tmp_path):
    for more, told in (
        ({"model": ""}, "No model is chosen"),
        ({"supplier": "nobody"}, "No supplier is named nobody"),
    ):
        failed = scene.run(**more)
        assert len(failed) == 1
        assert isinstance(failed[0], TurnFailed)
        assert told in failed[0].reason
    scene.root = tmp_path / "gone"
    gone = scene.run()[-1]
    assert isinstance(gone, TurnFailed)
    assert "cannot be opened" in gone.reason
    assert supplier.requests == []


def test_a_conversation_that_is_too_long_is_halved_and_asked_again(scene, supplier):
    too_long = Refuse(400, "Your input exceeds the context window", code="context_length_exceeded")
    history = tuple(
        Message(number, ("assistant", "user")[number % 2], "z" * 4000, "t")
        for number in range(1, 21)
    )
    supplier.script(too_long, Say("Short now."), *[too_long] * (MOST_TRIMS + 1))
    assert read_replies(scene.run("Keep me.", history=history)) == ["Short now."]
    long, short = (len(json.dumps(request.turns)) for request in supplier.requests)
    assert short < long * 0.6
    assert supplier.requests[1].prompt == "Keep me."
    failed = scene.run(history=history)[-1]
    assert isinstance(failed, TurnFailed)
    assert "too long for large" in failed.reason
    assert len(supplier.requests) == 2 + MOST_TRIMS + 1


def test_a_model_whose_context_is_much_smaller_than_assumed_goes_on_with_a_long_chat(
    scene, supplier
):
    """As when a chat goes on with a model of this machine, whose size nobody has told."""

    def answer(request) -> Made:
        if len(json.dumps(request.body)) > 40_000:
            return Refuse(400, "This model's maximum context length is 10000 tokens.")
        return Say("Here I am.")

    history = tuple(
        Message(number, ("assistant", "user")[number % 2], "z" * 4000, "t")
        for number in range(1, 61)
    )
    supplier.answer_always(answer)
    assert read_replies(scene.run("Keep me.", history=history)) == ["Here I am."]
    assert supplier.requests[-1].prompt == "Keep me."


def test_a_known_context_is_kept_to_as_the_turn_grows(scene, root, supplier):
    (root / "long.txt").write_text("".join(f"{'w' * 90} {n}\n" for n in range(400)))

    def answer(request) -> Answer:
        if "Do not go on with the work" in request.prompt:
            return Answer((Say("A summary."),), usage=None)
        return Answer((Call("read_file", {"path": "long.txt"}),), usage=None)

    scene.limits = TurnLimits(steps=8)
    supplier.answer_always(answer)
    told = scene.run(context=32_000)
    assert [name for name, _ in list_used_tools(told)].count("compact") >= 2
    assert max(len(json.dumps(request.turns)) for request in supplier.requests) < 32_000 * 4


def test_a_model_with_a_small_context_sees_of_a_long_result_what_it_has_room_for(
    scene, root, supplier
):
    (root / "long.txt").write_text("".join(f"{'w' * 90} {n}\n" for n in range(400)))
    supplier.script(
        Answer((Call("read_file", {"path": "long.txt"}),), usage=None), Say("I read a part.")
    )
    told = scene.run(context=8_000)
    assert read_replies(told) == ["I read a part."]
    assert [name for name, _ in list_used_tools(told)] == ["read_file"]
    (result,) = supplier.requests[-1].results
    assert "long.txt: 400 of 400 lines" in result.text and f"{'w' * 90} 5\n" in result.text
    assert "bytes are left out here" in result.text
    assert len(json.dumps(supplier.requests[-1].body)) < 6_000 * 4


@pytest.mark.parametrize("longest", [16_000, 32_000])
def test_a_request_leaves_room_for_the_longest_reply_that_it_asks_for(
    scene, root, supplier, longest
):
    """Suppliers refuse it else, though the conversation alone would fit."""
    (root / "long.txt").write_text("".join(f"{'w' * 90} {n}\n" for n in range(400)))
    sizes: list[int] = []

    def answer(request) -> Answer:
        sizes.append(len(json.dumps(request.body)) // 4 + request.body["max_tokens"])
        if "Do not go on with the work" in request.prompt:
            return Answer((Say("A summary."),), usage=None)
        return Answer((Call("read_file", {"path": "long.txt"}),), usage=None)

    scene.dialect, scene.limits = "anthropic", TurnLimits(steps=12)
    supplier.answer_always(answer)
    scene.run(context=32_000, max_output=longest)
    assert len(sizes) > 12 and max(sizes) <= 32_000


@pytest.mark.parametrize(("lines", "most"), [(1, 0), (20, 3)])
def test_a_prompt_that_fills_the_context_is_not_summed_up_at_each_step(
    scene, root, supplier, lines, most
):
    """A summary leaves the prompt as it is: it helps only once the steps fill much, too."""
    (root / "long.txt").write_text("".join(f"{'w' * 90} {n}\n" for n in range(lines)))

    def answer(request) -> Answer:
        if "Do not go on with the work" in request.prompt:
            return Answer((Say("A summary."),), usage=None)
        return Answer((Call("read_file", {"path": "long.txt"}),), usage=None)

    scene.limits = TurnLimits(steps=12)
    supplier.answer_always(answer)
    told = scene.run("A long prompt. " * 4800, context=32_000)
    assert [name for name, _ in list_used_tools(told)].count("compact") <= most
    assert max(len(json.dumps(request.turns)) for request in supplier.requests) < 32_000 * 4


def test_every_tool_use_is_told_as_it_begins_and_as_it_ends(scene, supplier):
    supplier.script(Call("shell", {"command": "echo hi"}), Say("Done."))
    told = scene.run()
    assert ToolStarted("shell", "command=echo hi") in told
    assert ToolUsed("shell", "command=echo hi", "exit code 0, 1 line\nhi") in told


def test_the_steps_of_a_turn_share_one_connection(scene, supplier, monkeypatch):
    opened = []
    real = asyncio.BaseEventLoop.create_connection

    def count_connection(*arguments, **more):
        opened.append(arguments)
        return real(*arguments, **more)

    monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", count_connection)
    supplier.script(*[Call("git_status")] * 4, Say("Done."))
    assert read_replies(scene.run()) == ["Done."]
    assert len(supplier.requests) == 5
    assert len(opened) == 1


def test_a_command_gets_no_more_time_than_the_turn_has(scene, supplier):
    clock = FrozenClock()
    scene.clock, scene.limits = clock, TurnLimits(seconds=100)

    def answer_late(_: object) -> Call:
        clock.move(98)
        return Call("shell", {"command": "sleep 100"})

    supplier.script(answer_late, Say("Done."))
    told = scene.run()
    assert list_used_tools(told) == [("shell", "timed out, 0 lines")]
    assert read_replies(told) == ["Done."]


def test_what_a_person_says_to_what_is_allowed_is_told_to_the_model(scene, supplier):
    class Talking(Person):
        async def ask(self, question):
            self.asked.append(question)
            return ApprovalAnswer(True, reason="Only this once.")

    scene.person = Talking()
    supplier.script(Call("shell", {"command": "true"}), Say("Done."))
    scene.run()
    said = supplier.requests[1].results[0].text
    assert "The person allowed this and says: Only this once." in said


@pytest.mark.parametrize(
    ("dialect", "field"),
    [
        ("openai-chat", "max_completion_tokens"),
        ("openai-responses", "max_output_tokens"),
        ("anthropic", "max_tokens"),
    ],
)
def test_the_models_own_limit_is_asked_for(scene, supplier, dialect, field):
    scene.dialect = dialect
    supplier.script(Say("Yes."))
    scene.run(max_output=64_000)
    body = supplier.requests[0].body
    assert body.get(field, body.get("max_tokens")) == 64_000


def test_tokens_of_thinking_are_asked_for(scene, supplier):
    scene.dialect = "anthropic"
    supplier.script(Say("Yes."))
    scene.run(max_output=64_000, effort="16000")
    thinking = {"type": "enabled", "budget_tokens": 16_000, "display": "summarized"}
    assert supplier.requests[0].body["thinking"] == thinking


def test_an_image_of_the_workspace_is_shown_to_the_model(scene, root, supplier):
    scene.dialect = "anthropic"
    (root / "shot.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(9))
    supplier.script(Call("view_file", {"path": "shot.png"}), Say("A picture."))
    told = scene.run()
    assert list_used_tools(told) == [("view_file", "image, 17 bytes")]
    assert '"media_type": "image/png"' in json.dumps(supplier.requests[1].turns)


def test_old_images_are_left_out_before_a_request_is_too_large(scene, root, supplier, monkeypatch):
    image = b"\x89PNG\r\n\x1a\n" + bytes(100)
    data = base64.b64encode(image).decode()
    monkeypatch.setattr(trimming, "MOST_ATTACHED", 4 * len(data))
    scene.dialect = "anthropic"
    (root / "shot.png").write_bytes(image)
    supplier.script(*[Call("view_file", {"path": "shot.png"})] * 6, Say("Seen."))
    assert read_replies(scene.run()) == ["Seen."]
    shown = [json.dumps(request.body).count(data) for request in supplier.requests]
    assert shown == [0, 1, 2, 3, 4, 2, 3]
    assert trimming.OLD_ATTACHMENT.text in json.dumps(supplier.requests[-1].body)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_pdf_of_the_workspace_is_shown_to_the_model(scene, root, supplier, dialect):
    scene.dialect = dialect
    (root / "plan.pdf").write_bytes(PDF)
    supplier.script(Call("view_file", {"path": "plan.pdf"}), Say("A plan."))
    told = scene.run()
    assert list_used_tools(told) == [("view_file", f"PDF, {len(PDF)} bytes")]
    assert base64.b64encode(PDF).decode() in json.dumps(supplier.requests[1].body)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_uploaded_image_that_the_prompt_names_is_part_of_it(scene, root, supplier, dialect):
    scene.dialect = dialect
    image = add_upload(root)
    supplier.script(Say("A picture."), Say("Still."))
    told = scene.run("What is in uploads/shot.png?")
    assert read_replies(told) == ["A picture."]
    assert image in json.dumps(supplier.requests[0].turns)


@pytest.mark.parametrize(
    "refused",
    [
        Refuse(400, "Invalid content type. image_url is only supported by certain models."),
        Refuse(404, "No endpoints found that support image input"),
    ],
)
def test_a_supplier_that_takes_no_images_is_told_that_there_was_one(scene, root, supplier, refused):
    image = add_upload(root)
    supplier.script(refused, Call("view_file", {"path": "uploads/shot.png"}), Say("I cannot see."))
    told = scene.run("What is in uploads/shot.png?")
    assert read_replies(told) == ["I cannot see."]
    seen, *later = (json.dumps(request.body) for request in supplier.requests)
    assert image in seen
    assert len(later) == 2
    assert all(image not in body and LEFT_OUT.text in body for body in later)
    assert all("uploads/shot.png" in body for body in later)


def test_thinking_at_the_default_effort_goes_back_with_its_tools(scene, supplier):
    scene.dialect = "openai-responses"
    supplier.script([Think("Look."), Call("list_files", {})], Say("That one."))
    scene.run()
    (sent_back,) = (
        item for item in supplier.requests[1].body["input"] if item["type"] == "reasoning"
    )
    assert sent_back["encrypted_content"] == "c2lnbmVk"
    assert "reasoning" not in supplier.requests[0].body


def test_a_model_that_does_not_think_is_asked_for_no_thinking(scene, supplier):
    scene.dialect = "openai-responses"
    supplier.script(
        Refuse(400, "Encrypted content is not supported with this model."), Say("Yes."), Say("Yes.")
    )
    run_turns(scene, TurnRequest(1, "One", "large", supplier="acme"))
    asked = ["include" in request.body for request in supplier.requests]
    assert asked == [True, False, False]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_thinking_is_told_as_it_grows_and_is_no_part_of_the_reply(scene, supplier, dialect):
    scene.dialect = dialect
    supplier.script([Think("Which file is it?"), Call("list_files", {})], Say("That one."))
    told = scene.run(effort="low")
    thought = [one.text for one in told if isinstance(one, ThinkingProgress)]
    assert "".join(thought) == "Which file is it?"
    assert len(thought) == 4
    assert read_replies(told) == [join_deltas(told)] == ["That one."]


@pytest.mark.parametrize(
    ("dialect", "field", "asked"),
    [
        ("openai-responses", "reasoning", {"effort": "low", "summary": "auto"}),
        ("anthropic", "thinking", {"type": "adaptive", "display": "summarized"}),
    ],
)
def test_a_summary_of_the_thinking_is_asked_for_where_it_is_hidden_else(
    scene, supplier, dialect, field, asked
):
    scene.dialect = dialect
    supplier.script(Say("Yes."), Say("Yes."))
    scene.run(effort="low")
    scene.run()
    assert [request.body.get(field) for request in supplier.requests] == [asked, None]


@pytest.mark.parametrize(
    ("dialect", "said"),
    [
        (
            "openai-responses",
            "Your organization must be verified to generate reasoning summaries. Please go to:"
            " https://platform.openai.com/settings/organization/general",
        ),
        ("openai-responses", "Unsupported parameter: 'reasoning.summary' is not supported."),
        ("anthropic", "thinking.adaptive.display: Extra inputs are not permitted"),
    ],
)
def test_a_supplier_that_shows_no_thinking_is_asked_without(scene, supplier, dialect, said):
    """OpenAI refuses summaries to organisations that it has not verified."""
    scene.dialect = dialect
    supplier.script(Refuse(400, said), Say("Yes."))
    told = scene.run(effort="low")
    assert read_replies(told) == ["Yes."]
    refused, taken = (json.dumps(request.body) for request in supplier.requests)
    assert '"summar' in refused
    assert '"summar' not in taken


def test_a_refusal_of_the_thinking_is_not_asked_for_in_every_turn(scene, supplier):
    scene.dialect = "openai-responses"
    refused = Refuse(400, "You must be verified to generate reasoning summaries.")
    supplier.script(refused, Say("Yes."), Say("Again."))
    run_turns(scene, TurnRequest(1, "One", "large", "low", supplier="acme"))
    shown = ["summary" in request.body["reasoning"] for request in supplier.requests]
    assert shown == [True, False, False]
