"""The native engine's chats go on after the daemon was killed: what was seen is still known."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.served import ServedAgent
from tests.supplier.steps import Call, Say
from tests.supplier.supplier import Supplier


@pytest.fixture
def supplier() -> Iterator[Supplier]:
    with Supplier() as serving:
        yield serving


@pytest.fixture
def served(tmp_path: Path, supplier: Supplier) -> ServedAgent:
    models = {
        "suppliers": {"acme": {"dialect": "openai-chat", "url": supplier.url}},
        "models": [
            {"name": "native", "engine": "native", "supplier": "acme", "model": "scripted-large"}
        ],
    }
    return ServedAgent(tmp_path, models, approvals="auto")


def test_what_was_seen_before_a_kill_is_known_after_it(
    served: ServedAgent, supplier: Supplier
) -> None:
    (served.workspace / "notes.txt").write_text("the answer is forty-two\n")
    supplier.script(Call("read_file", {"path": "notes.txt"}), Say("I read it."), Say("Forty-two."))
    with served.running() as caller:
        chat = caller.create_chat("Read it.", model="native")
        caller.wait_until_idle(chat)
    with served.running() as caller:
        caller.append(chat, "What is the answer?")
        assert caller.wait_until_idle(chat)[-1]["content"] == "Forty-two."
    before, after = (json.dumps(request.turns) for request in supplier.requests[-2:])
    assert "the answer is forty-two" in after
    assert after.startswith(before[:-1])


def test_a_turn_that_was_killed_is_shown_and_known(served: ServedAgent, supplier: Supplier) -> None:
    begun = served.workspace / "begun"
    supplier.script(
        Call("write_file", {"path": "made.txt", "text": "x"}),
        Call("shell", {"command": f"touch {begun}; sleep 600"}),
        Say("I was interrupted."),
    )
    with served.running() as caller:
        chat = caller.create_chat("Go on.", model="native")
        while not begun.exists():
            assert caller.look(chat)["chat"]["status"] != "completed"
    with served.running() as caller:
        told = caller.cut_off(chat)
        assert any("sleep 600" in one["content"] for one in told)
        caller.append(chat, "What happened?")
        caller.wait_until_idle(chat)
    said = json.dumps(supplier.requests[-1].turns)
    assert "new file, 1 line written" in said
    assert "there is no result" in said
    assert "The turn before failed: Interrupted" in said
