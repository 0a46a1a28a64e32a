"""Agents neither read nor write agentd's own files, secrets and start-up files unasked.

The daemon is a process of its own in the worst place: its workspace is the home folder, which
holds the configuration and the state, and the mode is ``auto``.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.served import Caller, ServedAgent
from tests.supplier.steps import Call, Say
from tests.supplier.supplier import Supplier

CANARY = "canary-0123456789abcdef"

ASKED = {
    "config/channels.yml": "own configuration",
    "config/users.yml": "own configuration",
    ".env": "passwords and keys",
    ".ssh/id_ed25519": "keys, passwords or sign-ins",
    ".bashrc": "settings, which start programs",
    "link": "own configuration",
}
"""Files that hold the canary, and why each is asked about."""


@pytest.fixture(scope="module")
def serving_supplier() -> Iterator[Supplier]:
    with Supplier() as serving:
        yield serving


@pytest.fixture
def supplier(serving_supplier: Supplier) -> Supplier:
    serving_supplier.forget()
    return serving_supplier


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory, serving_supplier: Supplier
) -> Iterator[tuple[ServedAgent, Caller]]:
    """One daemon for all tests, which begin with the same files."""
    tmp_path = tmp_path_factory.mktemp("bounds")
    program = [sys.executable, "-S", str(Path(__file__).with_name("asking_agent.py"))]
    models = {
        "suppliers": {"acme": {"dialect": "openai-chat", "url": serving_supplier.url}},
        "models": [
            {"name": "native", "engine": "native", "supplier": "acme", "model": "scripted-large"},
            {"name": "offline", "engine": "offline"},
            {"name": "program", "engine": "acp", "command": program},
        ],
    }
    made = ServedAgent(tmp_path, models, approvals="auto", workspace=str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / "link").symlink_to("config/channels.yml")
    for name in ASKED:
        (tmp_path / name).write_text(f"# {CANARY}\n")
    (tmp_path / "config" / "users.yml").chmod(0o600)
    with made.running() as caller:
        yield made, caller


@pytest.fixture
def served(running: tuple[ServedAgent, Caller]) -> Iterator[ServedAgent]:
    served, _ = running
    before = read_contents(served)
    yield served
    (served.folder / "notes").unlink(missing_ok=True)
    shutil.rmtree(served.folder / ".git", ignore_errors=True)
    for name in ASKED:
        if (served.folder / name).read_text() != before[name]:
            (served.folder / name).write_text(before[name])


@pytest.fixture
def caller(running: tuple[ServedAgent, Caller], served: ServedAgent) -> Caller:
    _, caller = running
    caller.client.close()  # the daemon hangs up on who is silent for long
    return caller


def read_contents(served: ServedAgent) -> dict[str, str]:
    return {name: (served.folder / name).read_text() for name in ASKED}


def deny(caller: Caller, chat: int) -> dict[str, str]:
    """Deny what is asked next; the question."""
    asked: dict[str, str] = caller.wait_for_question(chat)
    path = f"/api/chat/{chat}/approvals/{asked['id']}"
    assert caller.client.post(path, {"decision": "deny"}).status == 200
    return asked


@pytest.mark.parametrize("path", ASKED)
def test_the_native_engine_asks_before_it_reads_or_writes_one(
    caller: Caller, served: ServedAgent, supplier: Supplier, path: str
) -> None:
    before = read_contents(served)
    supplier.script(
        Call("read_file", {"path": path}),
        Call("write_file", {"path": path, "text": "mine"}),
        Call("edit_file", {"path": path, "old": "#", "new": "mine"}),
        Call("shell", {"command": f"cat ./{path}"}),
        Say("I may not."),
    )
    chat = caller.create_chat("Go on.", model="native")
    for _ in range(4):
        assert ASKED[path] in deny(caller, chat)["reason"]
    caller.wait_until_idle(chat)
    assert read_contents(served) == before
    assert CANARY not in str([request.body for request in supplier.requests])


@pytest.mark.parametrize("path", ASKED)
def test_its_other_tools_ask_before_they_touch_one(
    caller: Caller, served: ServedAgent, supplier: Supplier, path: str
) -> None:
    before = read_contents(served)
    patch = f"*** Begin Patch\n*** Update File: {path}\n*** Move to: taken\n*** End Patch"
    supplier.script(
        Call("view_file", {"path": path}),
        Call("multi_edit", {"path": path, "edits": [{"old": "#", "new": "mine"}]}),
        Call("apply_patch", {"patch": patch}),
        Call("apply_patch", {"patch": f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch"}),
        Call("start_process", {"command": f"cat ./{path}"}),
        Say("I may not."),
    )
    chat = caller.create_chat("Go on.", model="native")
    for _ in range(5):
        assert ASKED[path] in deny(caller, chat)["reason"]
    caller.wait_until_idle(chat)
    assert read_contents(served) == before
    assert CANARY not in str([request.body for request in supplier.requests])


def test_the_native_engine_reads_one_that_a_person_allowed(
    caller: Caller, supplier: Supplier
) -> None:
    supplier.script(Call("read_file", {"path": ".env"}), Say("I see."))
    chat = caller.create_chat("Go on.", model="native")
    asked = caller.allow(chat)
    assert (asked["kind"], asked["subject"]) == ("read", ".env")
    caller.wait_until_idle(chat)
    assert CANARY in str(supplier.requests[-1].body)


def test_a_file_that_the_settings_name_since_the_start_is_asked_for(
    caller: Caller, served: ServedAgent, supplier: Supplier
) -> None:
    key = served.folder / "key.txt"
    key.write_text(CANARY)
    read = [Call("read_file", {"path": "key.txt"}), Call("shell", {"command": "cat key.txt"})]
    supplier.script(*read, Say("I see."))
    caller.wait_until_idle(caller.create_chat("Go on.", model="native"))
    models = served.folder / "config" / "models.yml"
    written = json.loads(models.read_text())
    written["suppliers"]["other"] = {**written["suppliers"]["acme"], "key": f"file:{key}"}
    models.write_text(json.dumps(written))
    supplier.script(*read, Say("I may not."))
    chat = caller.create_chat("Again.", model="native")
    for _ in read:
        assert "own configuration" in deny(caller, chat)["reason"]
    caller.wait_until_idle(chat)


def test_nobody_is_asked_about_the_state_folder_which_stays_closed(
    caller: Caller, served: ServedAgent, supplier: Supplier
) -> None:
    keys = Path(served.process.layout.keys)
    before = keys.read_text() if keys.exists() else None
    supplier.script(
        [
            Call("read_file", {"path": "state/FORMAT"}),
            Call("write_file", {"path": "state/keys.yml", "text": "mine"}),
            Call("write_file", {"path": ".git/hooks/pre-commit", "text": "mine"}),
        ],
        Say("I may not."),
    )
    caller.wait_until_idle(caller.create_chat("Go on.", model="native"))
    output = [result.text for result in supplier.requests[-1].results]
    for one, why in zip(output, ("state folder", "state folder", "belongs to git"), strict=True):
        assert why in one
    assert (keys.read_text() if keys.exists() else None) == before
    assert not (served.folder / ".git").exists()


@pytest.mark.parametrize("engine", ["native", "offline"])
def test_no_search_finds_them(
    caller: Caller, served: ServedAgent, supplier: Supplier, engine: str
) -> None:
    (served.folder / "notes").write_text(f"# {CANARY}\n")
    calls = [Call("search_text", {"text": "canary-"}), Call("list_files", {"depth": 8})]
    supplier.script(calls, Say("That is all."))
    prompt = f'/search "{CANARY}"' if engine == "offline" else "Go on."
    messages = caller.wait_until_idle(caller.create_chat(prompt, model=engine))
    if engine == "native":
        output = "".join(result.text for result in supplier.requests[-1].results)
        assert "id_ed25519" not in output and "keys.yml" not in output
    else:
        output = str([one["content"] for one in messages[1:]])
    assert "notes" in output
    assert not any(f"{name}:" in output for name in ASKED)


def test_no_difference_shows_them(caller: Caller, served: ServedAgent, supplier: Supplier) -> None:
    git = ("git", "-c", "user.name=x", "-c", "user.email=x@y", "-C", str(served.folder))
    (served.folder / "notes").write_text("one\n")
    for arguments in (("init", "-q"), ("add", "-f", ".env", "notes"), ("commit", "-qm", "First")):
        subprocess.run([*git, *arguments], check=True)
    (served.folder / ".env").write_text(f"# {CANARY} changed\n")
    (served.folder / "notes").write_text("two\n")
    calls = [Call("git_diff"), Call("git_diff", {"commit": "HEAD"})]
    supplier.script(calls, Say("That is all."))
    caller.wait_until_idle(caller.create_chat("Go on.", model="native"))
    output = [result.text for result in supplier.requests[-1].results]
    for one, line in zip(output, ("+two", "+one"), strict=True):
        assert CANARY not in one
        assert line in one and "left out, since it is protected: .env" in one


@pytest.mark.parametrize("path", [*ASKED, "config/builds.yml", ".git/hooks/pre-commit"])
def test_a_program_that_speaks_acp_is_not_allowed_one_unasked(
    caller: Caller, served: ServedAgent, path: str
) -> None:
    absolute = str(served.folder / path)
    for kind in ("edit", "read", "delete"):
        if kind == "read" and path.startswith(".git/"):
            continue
        call = {"kind": kind, "locations": [{"path": absolute}]}
        chat = caller.create_chat(json.dumps(call), model="program")
        if not path.startswith(".git/"):
            assert deny(caller, chat)["reason"]
        assert caller.wait_until_idle(chat)[-1]["content"] == "reject_once"


def test_such_a_program_is_allowed_what_is_the_projects(
    caller: Caller, served: ServedAgent
) -> None:
    call = {"kind": "edit", "locations": [{"path": str(served.folder / "src" / "a.py")}]}
    messages = caller.wait_until_idle(caller.create_chat(json.dumps(call), model="program"))
    assert messages[-1]["content"] == "allow_once"


def test_such_a_program_may_nothing_in_the_state_folder(
    caller: Caller, served: ServedAgent
) -> None:
    for kind in ("edit", "read"):
        call = {"kind": kind, "locations": [{"path": served.process.layout.keys}]}
        messages = caller.wait_until_idle(caller.create_chat(json.dumps(call), model="program"))
        assert messages[-1]["content"] == "reject_once"


def test_the_log_warns_of_a_workspace_that_holds_the_home(
    caller: Caller, served: ServedAgent
) -> None:
    assert "holds the whole home folder" in served.process.log
