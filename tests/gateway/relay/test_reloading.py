"""Files of the gateway that are edited under load: no call fails, and no key outlives its line."""

import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentd.gateway.keys.file import AccessKeyFile
from agentd.storage.watched_file import FileContent, FileReading
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.gateway.conftest import GatewaySetup
from tests.gateway.relay.callers import RunningGateway, build_call, read_answer, running_gateway
from tests.gateway.relay.loading import running_load
from tests.supplier.steps import Answer, Say, Stall, Tokens
from tests.supplier.supplier import Supplier
from tests.support.daemon import PATIENCE, until

WORDS = "one two three four five six"
USED = Tokens(input=1000, output=100)
ANSWER = Answer((Say(WORDS),), USED)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[RunningGateway]:
    """A gateway whose supplier answers everybody."""

    def prepare(setup: GatewaySetup) -> None:
        setup.supplier.answer_always(lambda request: ANSWER if request.prompt == "hello" else None)

    with running_gateway(tmp_path, prepare, environ={"PROXY_APP_HASH": HASH}) as made:
        yield made


Save = Callable[[Path, str, Callable[[], None]], None]
"""Write a file's text; calls back in the middle, where there is one."""


def save_by_rename(path: Path, text: str, seen: Callable[[], None] = bool) -> None:
    """Save as most editors do: another file takes the place."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(0o600)
    new.rename(path)


def save_in_place(path: Path, text: str, seen: Callable[[], None]) -> None:
    """Save as the others do: for a moment the file has only half of its content."""
    half = len(text) // 2
    with path.open("w") as file:
        file.write(text[:half])
        file.flush()
        seen()
        file.write(text[half:])


def save_with_gap(path: Path, text: str, seen: Callable[[], None]) -> None:
    """Save as some do: the file is renamed away before the new one is there."""
    path.rename(path.with_suffix(".old"))
    seen()
    save_by_rename(path, text)


class Editor:
    """Saves files; the daemon looks again at one that it found half or gone once it is saved."""

    def __init__(self) -> None:
        self.doubted: list[str] = []
        self._saved = threading.Event()
        self._saved.set()

    def edit(self, save: Save, path: str, text: str) -> None:
        """Save a file in this way; in the middle of it the daemon has seen what there is."""
        self._saved.clear()
        try:
            save(Path(path), text, lambda: until(lambda: path in self.doubted))
        finally:
            self._saved.set()

    def found(self, path: str) -> None:
        """The daemon doubts what it read of a file."""
        self.doubted.append(path)
        self._saved.wait(PATIENCE)


@pytest.fixture
def editor(monkeypatch: pytest.MonkeyPatch) -> Editor:
    """Return whose files are read by a daemon that is neither too early nor too late."""
    made, read = Editor(), FileContent.read

    def reading(self: FileContent[Any]) -> FileReading[Any] | None:
        reply = read(self)
        if reply and reply.is_partial:
            made.found(self.path)
        return reply

    monkeypatch.setattr(FileContent, "read", reading)
    return made


@pytest.mark.parametrize("save", [save_by_rename, save_in_place, save_with_gap])
def test_no_call_fails_while_channels_models_and_settings_are_edited(
    gateway: RunningGateway, save: Save, editor: Editor
) -> None:
    setup, layout = gateway.setup, gateway.setup.layout

    def edit(path: str, content: dict[str, Any]) -> None:
        editor.edit(save, path, setup.encode_yaml(content))

    with running_load(gateway.add_caller()) as calls:
        setup.channels.insert(0, setup.build_channel("new", "openai-chat"))
        for channel in setup.channels:
            channel |= {"headers": {"x-edited": "yes"}, "timeout": 30}
        edit(layout.channels, {"channels": setup.channels})
        ways = [{"channel": "new", "model": "scripted-large"}]
        setup.models.insert(0, {**setup.models[-1], "name": "new", "routes": ways})
        edit(layout.models, {"proxy": setup.models})
        setup.settings |= {"time_zone": "Asia/Kathmandu", "tries": 2, "mask_secrets": False}
        edit(layout.gateway_settings, setup.settings)
        calls.wait_for_more()
        other = gateway.add_caller()
        until(lambda: other.ask("openai-chat", "new").status == 200)
        until(lambda: gateway.supplier.requests[-1].headers.get("x-edited"))
        until(lambda: ("time_zone", "Asia/Kathmandu") in get_settings(gateway))


def test_the_largest_request_is_the_one_that_the_settings_say_now(
    gateway: RunningGateway,
) -> None:
    setup, caller = gateway.setup, gateway.add_caller()
    _, body = build_call("openai-chat", "by-chat", text="hello")
    body["user"] = "x" * 2000
    for most, status in ((1024, 413), (2**20, 200)):
        setup.settings["max_body"] = most
        save_by_rename(Path(setup.layout.gateway_settings), setup.encode_yaml(setup.settings))
        until(lambda most=most: ("max_body", most) in get_settings(gateway))
        assert caller.ask("openai-chat", "by-chat", body=body).status == status


def get_settings(gateway: RunningGateway) -> list[tuple[str, Any]]:
    with closing(gateway.daemon.client(MANAGEMENT_KEY)) as manager:
        reply = manager.get("/api/agent/settings")["settings"]
    return [(one["name"], one["value"]) for one in reply]


def test_a_call_under_way_comes_to_its_end_though_its_channel_is_another_or_gone(
    gateway: RunningGateway,
) -> None:
    setup, caller = gateway.setup, gateway.add_caller()
    stalls = [Stall(after) for after in (0, 4, 0, 4)]
    with Supplier() as other:
        other.answer_always(ANSWER)
        gateway.supplier.script(*[Answer((Say(WORDS),), USED, faults=(one,)) for one in stalls])
        lines = []
        for stall, stream in zip(stalls, (True, True, False, True), strict=True):
            lines.append(caller.begin_call("openai-chat", "by-chat", stream=stream, text="slowly"))
            stall.reached.result(60)
        setup.channels[0] |= {"url": other.url, "key": "sk-other-0123456789abcdef"}
        save_by_rename(Path(setup.layout.channels), setup.encode_yaml({"channels": setup.channels}))
        until(lambda: caller.ask("openai-chat", "by-chat", text="x").status == 200)
        known = len(other.requests)
        stalls[0].release()
        stalls[2].release()
        reply = [read_answer(lines[0], "openai-chat"), read_answer(lines[2], "openai-chat")]
        setup.channels[0]["name"] = "renamed"
        setup.models[0]["routes"][0]["channel"] = "renamed"
        save_by_rename(Path(setup.layout.channels), setup.encode_yaml({"channels": setup.channels}))
        save_by_rename(Path(setup.layout.models), setup.encode_yaml({"proxy": setup.models}))
        until(lambda: caller.ask("openai-chat", "by-chat", text="x").channel == "renamed")
        for stall in stalls:
            stall.release()
        reply += [read_answer(lines[1], "openai-chat"), read_answer(lines[3], "openai-chat")]
        for line in lines:
            line.close()
        assert [(one.status, one.text(), one.whole) for one in reply] == [(200, WORDS, True)] * 4
        assert {gateway.wait_for_record(one).outcome for one in reply} == {"ok"}
        assert {gateway.wait_for_record(one).channel for one in reply} == {"chat"}
        assert len(other.requests) > known


@pytest.mark.parametrize("file", ["channels", "models", "gateway_settings", "secret_rules"])
def test_a_broken_file_leaves_what_was_in_force_and_is_reported_with_its_line(
    gateway: RunningGateway, file: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = Path(getattr(gateway.setup.layout, file))
    before = path.read_text() if path.exists() else "rules: []\n"
    caplog.set_level(logging.INFO, "agentd.reload")
    with running_load(gateway.add_caller()) as calls:
        for line, broken in enumerate(("\n\nchannels: ]\n", "\n\n\nnonsense: 5\n"), 3):
            save_by_rename(path, broken)
            until(lambda line=line: f"{path}:{line}:" in caplog.text)
            until(lambda line=line: f"{path}:{line}:" in get_config_notes(gateway))
            assert any(one.startswith(f"{path}:{line}:") for one in get_problems(gateway))
            calls.wait_for_more()
            caplog.clear()
            save_by_rename(path, before)
            until(lambda: f"{path} is in order again" in caplog.text)
            assert not get_problems(gateway)
            calls.wait_for_more()


def get_problems(gateway: RunningGateway) -> list[str]:
    """Get the problems of the files from the summary."""
    with closing(gateway.daemon.client(MANAGEMENT_KEY)) as manager:
        return list(manager.get("/api/agent/summary")["problems"])


def get_config_notes(gateway: RunningGateway) -> str:
    """Get the notes about invalid files from the service log."""
    with closing(gateway.daemon.client(MANAGEMENT_KEY)) as manager:
        return str(manager.get("/api/agent/service-log?kind=config_invalid")["items"])


def test_a_key_that_is_taken_away_opens_nothing_from_then_on_and_the_others_do(
    gateway: RunningGateway,
) -> None:
    setup = gateway.setup
    with running_load(gateway.add_caller(name="stays")) as calls:
        for turn in range(6):
            caller = gateway.add_caller(name=f"goes {turn}")
            assert caller.ask("openai-chat", "by-chat").status == 200
            if turn % 2:
                AccessKeyFile(setup.layout).remove(setup.keys[-1])
            else:
                path = Path(setup.layout.access_keys)
                gone = rf"- id: '{setup.keys[-1]}'\n.*?(?=- id:|\Z)"
                save_by_rename(path, re.sub(gone, "", path.read_text(), flags=re.DOTALL))
            assert {caller.ask("anthropic", "by-messages").status for _ in range(5)} == {401}
            calls.wait_for_more()


def test_a_key_with_a_mistake_in_its_lines_opens_nothing_alone_and_is_reported(
    gateway: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    path = Path(gateway.setup.layout.access_keys)
    with running_load(gateway.add_caller(name="good")) as calls:
        bad = gateway.add_caller(name="bad")
        assert bad.ask("openai-chat", "by-chat").status == 200
        save_by_rename(path, re.sub(r"name: '?bad'?\n", "name: [bad]\n", path.read_text()))
        assert bad.ask("openai-chat", "by-chat").status == 401
        calls.wait_for_more()
    line = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if "[bad]" in text)
    assert f"{path}:{line}" in caplog.text
    with closing(gateway.daemon.client(MANAGEMENT_KEY)) as manager:
        assert f"{path}:{line}" in json.dumps(manager.get("/api/agent/summary").json())
