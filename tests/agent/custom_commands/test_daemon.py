"""Custom commands of a whole daemon: asked for over the API, in the history, with their model."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.served import ServedAgent
from tests.supplier.steps import Say
from tests.supplier.supplier import Supplier


@pytest.fixture
def supplier() -> Iterator[Supplier]:
    with Supplier() as serving:
        yield serving


@pytest.fixture
def served(tmp_path: Path, supplier: Supplier) -> ServedAgent:
    models = [
        {"name": name, "engine": "native", "model": name, "supplier": "acme"}
        for name in ("large", "small")
    ]
    suppliers = {"acme": {"dialect": "anthropic", "url": supplier.url, "key": "sk-1"}}
    made = ServedAgent(tmp_path, {"suppliers": suppliers, "models": models, "default": "large"})
    (tmp_path / "config" / "models.yml").chmod(0o600)
    return made


def test_a_command_asks_is_sent_and_chooses_its_model(
    served: ServedAgent, supplier: Supplier
) -> None:
    commands = served.workspace / ".claude" / "commands" / "git"
    commands.mkdir(parents=True)
    (commands / "sum-up.md").write_text(
        "---\ndescription: Sums up\nargument-hint: [since]\nmodel: small  # of models.yml\n---\n"
        "Sum up !`echo changes since $1`.\n"
    )
    (commands / "other.md").write_text("---\nmodel: haiku\n---\nThe other.\n")
    supplier.script(Say("Summed up."), Say("Done."))
    with served.running() as caller:
        listed = caller.client.get("/api/commands")
        assert [(one["name"], one["argumentHint"]) for one in listed["commands"]] == [
            ("git:other", ""),
            ("git:sum-up", "[since]"),
        ]
        chat = caller.create_chat("/git:sum-up May")
        asked = caller.allow(chat)
        assert (asked["kind"], asked["subject"]) == ("shell", "echo changes since May")
        caller.wait_until_idle(chat)
        messages = caller.client.get(f"/api/chat/{chat}/messages")["messages"]
        said = [(one["role"], one["content"]) for one in messages]
        sent = "Sum up changes since May."
        assert said[0] == ("user", "/git:sum-up May")
        assert f".claude/commands/git/sum-up.md\n\n{sent}" in said[-2][1]
        assert said[-1] == ("assistant", "Summed up.")
        caller.append(chat, "/git:other")
        assert caller.wait_until_idle(chat)[-1]["content"] == "Done."
    first, second = supplier.requests
    assert (first.model, second.model) == ("small", "large"), "haiku is another program's"
    assert sent in str(first.body)
    assert "/git:sum-up" not in str(first.body)
