"""A question is answered by a rule that the settings keep: by an administrator, or not at all."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from agentd.agent.engine import Approver, EngineEvent, Question, ReplyCompleted, TurnRequest
from agentd.storage.layout import Layout
from tests.support.daemon import HASH, Client, Engine, Serving, until
from tests.support.fixtures import Serve

FILE = f"""\
port: 0
agent_api_key: {HASH}
approval_rules:
  # never
  - {{decision: deny, subject: rm *}}
  # what is published
  - decision: ask
    subject: git push*
"""
RULE = {"decision": "allow", "kind": "shell", "subject": "git *"}


class ShellEngine(Engine):
    """Asks whether it may run the prompt, and replies with the answer."""

    async def run(
        self, assignment: TurnRequest, approver: Approver
    ) -> AsyncGenerator[EngineEvent, None]:
        """Ask, and reply."""
        answer = await approver.ask(Question("shell", "shell", assignment.prompt))
        yield ReplyCompleted("allowed" if answer.allowed else "denied")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A hand-written ``agentd.yml``."""
    path = Path(Layout(str(tmp_path / "state"), str(tmp_path / "config")).settings)
    path.parent.mkdir()
    path.write_text(FILE)
    return path


@pytest.fixture
def daemon(file: Path, serve: Serve) -> Serving:
    """A daemon with that file."""
    return serve(engine=ShellEngine(), options={"workspace": str(file.parent)})


def ask(client: Client, command: str) -> str:
    """Let a chat ask; return the address of the answer."""
    chat = client.create_chat(prompt=command)
    asked = until(lambda: client.get(f"/api/chat/{chat}/approvals")["approvals"])
    return f"/api/chat/{chat}/approvals/{asked[0]['id']}"


def test_a_rule_is_in_the_file_and_in_force_when_the_answer_is_acknowledged(daemon, file):
    client, ada = daemon.client(), daemon.administrator()
    path = ask(client, "git push origin")
    reply = ada.post(path, {"decision": "allow", "rule": RULE})
    assert (reply.status, reply["state"]) == (200, "allowed")
    above = "  # what is published\n"
    rule = "  - decision: 'allow'\n    kind: 'shell'\n    subject: 'git *'\n"
    assert file.read_text() == FILE.replace(above, rule + above)
    assert client.messages(client.create_chat(prompt="git push mine"))[-1]["content"] == "allowed"
    assert client.messages(client.create_chat(prompt="rm -r x"))[-1]["content"] == "denied"


@pytest.mark.parametrize(
    ("rule", "status"),
    [
        ({**RULE, "subject": "make *"}, 400),
        ({**RULE, "decision": "deny"}, 400),
        ({**RULE, "subject": 5}, 400),
        ({**RULE, "pattern": "x"}, 400),
        ({"kind": "shell"}, 400),
    ],
)
def test_a_rule_that_does_not_fit_changes_nothing(daemon, file, rule, status):
    path = ask(daemon.client(), "git push origin")
    reply = daemon.administrator().post(path, {"decision": "allow", "rule": rule})
    assert reply.status == status, reply.body
    assert file.read_text() == FILE
    assert daemon.client().get(path.rpartition("/")[0])["approvals"][0]["state"] == "open"


def test_only_an_administrator_adds_rules_and_only_to_an_open_question(daemon, file):
    client, ada = daemon.client(), daemon.administrator()
    path = ask(client, "git push origin")
    assert client.post(path, {"decision": "allow", "rule": RULE}).status == 403
    assert client.post(path, {"decision": "allow"}).status == 200
    assert ada.post(path, {"decision": "allow", "rule": RULE}).status == 404
    assert file.read_text() == FILE


def test_a_file_with_mistakes_is_mended_first_and_the_question_stays_open(daemon, file):
    path = ask(daemon.client(), "git push origin")
    broken = FILE.replace("subject: rm *", "subjet: rm *")
    file.write_text(broken)
    ada = daemon.administrator()
    assert ada.post(path, {"decision": "allow", "rule": RULE}).status == 409
    assert file.read_text() == broken
    assert ada.post(path, {"decision": "allow"}).status == 200
