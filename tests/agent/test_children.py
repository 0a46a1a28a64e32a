"""An engine's program, and a command that it runs, can see next to nothing of the daemon."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.served import Caller, ServedAgent
from tests.supplier.steps import Call, Say
from tests.supplier.supplier import Supplier
from tests.support.daemon import HASH, KEY

SECRETS = {
    "SCRIPTED_KEY": "sk-canary-of-the-supplier",
    "AGENTD_KEY": KEY,
    "ANTHROPIC_API_KEY": "sk-canary-of-the-person",
    "AWS_SECRET_ACCESS_KEY": "canary-of-another-program",
    "AGENTD_STATE": "canary-of-the-state-folder",
    "NOTIFY_SOCKET": "@canary-of-the-service-manager",
}
"""Variables in the daemon's environment that no program needs."""

ALLOWED = {"AGENTD_TURN", "HOME", "LANG", "LC_CTYPE", "LOGNAME", "PATH", "PWD", "SHELL", "SHLVL"}
ALLOWED |= {"AGENTD_DAEMON", "TMPDIR", "TZ", "USER", "XDG_CONFIG_HOME", "_", "OLDPWD", "LC_ALL"}
ALLOWED |= {"GIT_CONFIG_PARAMETERS", "GIT_PAGER", "GIT_TERMINAL_PROMPT", "PAGER", "TERM"}


@pytest.fixture
def supplier() -> Iterator[Supplier]:
    with Supplier() as serving:
        yield serving


@pytest.fixture
def served(tmp_path: Path, supplier: Supplier) -> ServedAgent:
    program = [sys.executable, "-S", str(Path(__file__).with_name("hostile.py")), "looks_around"]
    access = {"dialect": "openai-chat", "url": supplier.url, "key": "env:SCRIPTED_KEY"}
    models = {
        "suppliers": {"acme": access},
        "models": [
            {"name": "program", "engine": "acp", "command": program},
            {"name": "native", "engine": "native", "supplier": "acme", "model": "scripted-large"},
        ],
    }
    return ServedAgent(tmp_path, models, approvals="auto")


@pytest.fixture
def caller(served: ServedAgent) -> Iterator[Caller]:
    with served.running(**SECRETS) as caller:
        yield caller


CAREFUL = "'safe.bareRepository=explicit'"
"""Settings that every git of an agent gets."""


def assert_harmless(variables: dict[str, str], served: ServedAgent) -> None:
    assert set(variables) <= ALLOWED
    assert CAREFUL in variables["GIT_CONFIG_PARAMETERS"]
    for name, value in variables.items():
        assert "canary" not in value and HASH not in value and KEY not in value, name
        assert name in ("PWD", "HOME") or str(served.folder) not in value, name
    assert served.process.layout.state not in variables.values()


def test_an_engine_s_program_sees_no_key_no_state_folder_and_no_file_of_ours(
    caller: Caller, served: ServedAgent
) -> None:
    """No environment but a short list of names, the workspace, three pipes."""
    [_, reply] = caller.wait_until_idle(caller.create_chat("What do you see?", model="program"))
    seen = json.loads(reply["content"])
    assert_harmless(seen["environment"], served)
    assert seen["folder"] == str(served.workspace)
    assert [to.partition(":")[0] for to in seen["descriptors"]] == ["pipe"] * 3
    assert served.folder.name not in " ".join(seen["arguments"])


def test_a_command_of_the_native_engine_sees_no_key_either(
    caller: Caller, served: ServedAgent, supplier: Supplier
) -> None:
    supplier.script(Call("shell", {"command": "env -0 > seen"}), Say("Done."))
    caller.wait_until_idle(caller.create_chat("Look.", model="native"))
    result = (served.workspace / "seen").read_text().split("\0")
    assert_harmless(dict(one.split("=", 1) for one in result if one), served)
    sent = supplier.requests[0]
    assert sent.headers["authorization"] == f"Bearer {SECRETS['SCRIPTED_KEY']}"
    journals = (served.folder / "state").rglob("*")
    kept = b"".join(path.read_bytes() for path in journals if path.is_file())
    assert b"canary" not in kept and KEY.encode() not in kept
