"""A real agent, agentd's remote API, its gateway and a scripted supplier, in one piece."""

import os
import re
import shutil
import subprocess
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agentd.storage.layout import Layout
from tests.agent.engines.real.programs import CODEX, OPENCODE, install
from tests.agent.served import ServedAgent
from tests.gateway.conftest import GatewaySetup
from tests.supplier.request import Request
from tests.supplier.steps import Answer, Call, Say, Tokens

pytestmark = pytest.mark.engines

SECRET = "ghp_" + "aB3dE5fG7h" * 3 + "J1kL9m"
USED = Tokens(input=1000, cached=100, output=50)


ENGINES: dict[str, dict[str, Any]] = {
    "codex": {"engine": "codex"},
    "opencode": {"engine": "acp", "command": ["opencode", "acp"]},
}
READING = {
    "codex": Call("exec_command", {"cmd": "cat token.txt"}),
    "opencode": Call("bash", {"command": "cat token.txt", "description": "reads"}),
}


def _write_placeholder(request: Request) -> Answer:
    """Do as a model does that was told the secret: it only knows the placeholder."""
    placeholder = re.findall(r"SECRET_[A-Za-z0-9_]+", str(request.body))[-1]
    command = f"printf %s {placeholder} > written.txt"
    if "exec_command" in request.tools:
        return Answer((Call("exec_command", {"cmd": command}),), USED)
    return Answer((Call("bash", {"command": command, "description": "writes"}),), USED)


@pytest.mark.parametrize(
    ("agent", "program", "through"),
    [("codex", CODEX, "by-responses"), ("opencode", OPENCODE, "by-chat")],
    ids=["codex", "opencode"],
)
def test_an_agent_works_with_a_secret_that_no_supplier_sees_and_its_chat_costs_what_the_ledger_says(
    setup: GatewaySetup, tmp_path: Path, agent: str, program: Path, through: str
) -> None:
    if not shutil.which(program):
        pytest.skip(f"no {program}: see tests/agent/engines")
    engine = ENGINES[agent] | {"supplier": "agentd", "model": through, "context": 100_000}
    models = {"proxy": setup.models, "models": [{"name": agent, **engine}]}
    rules = [{"decision": "allow", "kind": "shell"}, {"decision": "allow", "kind": "write"}]
    served = ServedAgent(tmp_path, models, approval_rules=rules)
    setup.layout = Layout(str(tmp_path / "state"), str(tmp_path / "config"))
    setup.write()
    Path(setup.layout.models).write_text(setup.encode_yaml(models))
    subprocess.run(["git", "init", "--quiet", str(served.workspace)], check=True)
    (served.workspace / "token.txt").write_text(f"token: {SECRET}\n")
    setup.supplier.script(
        Answer((READING[agent],), USED),
        _write_placeholder,
        Answer((Say("I wrote it down."),), USED),
    )
    home = install(tmp_path / "home")
    path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    with served.running(HOME=str(home), PATH=path) as caller:
        chat = caller.create_chat("Write the token down.", model=agent)
        said = caller.wait_until_idle(chat)
        cost = Decimal(str(caller.client.status(chat)["totalCost"]))
    assert said[-1]["content"] == "I wrote it down.", said
    assert (served.workspace / "written.txt").read_text() == SECRET
    asked = setup.supplier.requests
    assert len(asked) == 3
    assert all(SECRET not in str(request.body) for request in asked)
    assert "SECRET_" in str(asked[1].body)
    assert sum(entry.cost for entry in setup.wait_for_records(3)) == cost > 0
