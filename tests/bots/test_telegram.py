"""The whole way: a person in Telegram, the real library, the serving daemon, and back."""

import html
import json
import logging
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentd.agent.approvals import ApprovalService
from agentd.agent.engine import Approver, EngineEvent, Question, ReplyCompleted, TurnRequest
from agentd.bots import polling
from agentd.bots import runtime as bots_runtime
from agentd.bots.update_handler import NO_SPEECH
from agentd.chats.approval import Approval
from agentd.http.log_scrubber import LogFormatter
from tests.bots.bot_api import OTHER_POLLER, REVOKED, TOKEN, USER, BotApi, refuse_call
from tests.support.daemon import PATIENCE, Engine, Serving, read_journals, until
from tests.support.ports import find_free_port

BOT = "helper"
OTHER_USER = USER + 1


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten all waits."""
    monkeypatch.setattr(bots_runtime, "FIRST_SECONDS", 0.02)
    monkeypatch.setattr(bots_runtime, "LONGEST_SECONDS", 0.1)
    monkeypatch.setattr(polling, "CONFLICT_SECONDS", 0.1)
    # But what is said when a bot is to end may be noted, too, on the slowest machine.
    monkeypatch.setattr(polling, "LEAVE_SECONDS", 60.0)


@pytest.fixture(autouse=True)
def logged(tmp_path: Path) -> Iterator[list[str]]:
    """Yield all log lines as the daemon formats them; the token must be in none of them."""
    lines: list[str] = []

    class RecordKeeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    handler = RecordKeeper()
    handler.setFormatter(LogFormatter())
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield lines
    root.removeHandler(handler)
    root.setLevel(before)
    assert TOKEN not in "\n".join(lines)
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.name != "bots.yml":
            assert TOKEN.encode() not in path.read_bytes(), path


@pytest.fixture
def api() -> Iterator[BotApi]:
    with BotApi() as server:
        yield server


def configure(folder: Path, api: BotApi, **more: Any) -> Path:
    """Write a ``bots.yml`` with one bot."""
    bot = {"id": BOT, "title": "Helper", "token": TOKEN, "users": [USER], "base_url": api.url}
    path = folder / "config" / "bots.yml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"bots": [bot | more]}))
    path.chmod(0o600)
    return path


def get_bot(daemon: Serving) -> dict[str, Any]:
    """Return the bot as endpoint 9 shows it."""
    found = daemon.client().get("/api/remote/bots")
    assert TOKEN.encode() not in found.body
    (bot,) = found["bots"]
    return dict(bot)


def list_prompts(daemon: Serving) -> list[str]:
    """Return all prompts that the engine was given."""
    return [given.prompt for given in daemon.engine.given]


def wait_until_idle(daemon: Serving, chat: int) -> None:
    """Wait until the turn has ended; its reply is sent before that."""
    client = daemon.client()
    until(lambda: client.status(chat)["status"] == "completed")


class AskingEngine(Engine):
    """Asks before it answers."""

    async def run(
        self, assignment: TurnRequest, approver: Approver
    ) -> AsyncGenerator[EngineEvent, None]:
        """Ask, and say what the answer was."""
        self.given.append(assignment)
        answer = await approver.ask(Question("shell", "shell", "rm -rf <x> & `y`"))
        yield ReplyCompleted(f"allowed: {answer.allowed}")


# A conversation.


def test_a_message_becomes_a_chat_and_its_reply_comes_back(tmp_path: Path, api: BotApi) -> None:
    configure(tmp_path, api)
    with Serving(tmp_path) as daemon:
        number = api.say("Mend **it**")
        until(lambda: api.list_texts() == ["echo: Mend <b>it</b>"])
        bot = get_bot(daemon)
        assert bot == {
            "id": BOT,
            "title": "Helper",
            "enabled": True,
            "running": True,
            "pollingError": None,
        }
        client = daemon.client()
        assert [one["content"] for one in client.messages(1)] == [
            "Mend **it**",
            "echo: Mend **it**",
        ]
        api.say("and again")
        until(lambda: len(api.list_texts()) == 2)
        assert list_prompts(daemon) == ["Mend **it**", "and again"]
        assert b'"by":"bot:helper"' in b"".join(read_journals(daemon.layout).values())
        until(lambda: number not in api.waiting)


def test_buttons_below_a_reply_are_prompts(tmp_path: Path, api: BotApi) -> None:
    configure(tmp_path, api)
    engine = Engine()
    engine.says = lambda given: [ReplyCompleted(f"Done {given.prompt}\n[[Again|go on]] [[Stop]]")]
    with Serving(tmp_path, engine) as daemon:
        api.say("go")
        until(api.list_buttons)
        assert api.list_texts() == ["Done go"]
        assert list(api.list_buttons()) == ["Again", "Stop"]
        assert all(len(data.encode()) <= 64 for data in api.list_buttons().values())
        api.press(api.list_buttons()["Again"])
        until(lambda: list_prompts(daemon) == ["go", "go on"])
        until(lambda: [one for one in api.sent if one["method"] == "answerCallbackQuery"])
        until(lambda: len(api.list_texts()) == 2)


@pytest.mark.parametrize(("label", "allowed"), [("Allow", True), ("Deny", False)])
def test_a_question_is_answered_by_a_button(
    tmp_path: Path, api: BotApi, label: str, allowed: bool
) -> None:
    configure(tmp_path, api)
    with Serving(tmp_path, AskingEngine()) as daemon:
        api.say("do it")
        until(lambda: label in api.list_buttons())
        assert "rm -rf &lt;x&gt; &amp; `y`" in api.list_texts()[0]
        api.press(api.list_buttons()[label])
        until(lambda: api.list_texts()[-1] == f"allowed: {allowed}")
        assert b'"answered_by":"bot:helper"' in b"".join(read_journals(daemon.layout).values())
        api.press(api.list_buttons()[label])
        until(lambda: "not open" in api.list_notes()[-1])


def test_a_question_is_answered_by_a_command(tmp_path: Path, api: BotApi) -> None:
    configure(tmp_path, api)
    with Serving(tmp_path, AskingEngine()):
        api.say("do it")
        until(api.list_buttons)
        api.say("/approve")
        until(lambda: "allowed: True" in api.list_texts())


@pytest.mark.parametrize(("answer", "once"), [("/approve", True), ("/approve {}", False)])
def test_an_answer_that_names_no_question_is_not_repeated_to_the_next_one(
    tmp_path: Path, api: BotApi, monkeypatch: pytest.MonkeyPatch, answer: str, once: bool
) -> None:
    """The daemon may end between the answer and the note that its update is done."""
    state = configure(tmp_path, api).parent.parent / "state/bots/helper.json"
    offsets: list[int] = []
    decide = ApprovalService.answer

    async def note_offset(self: ApprovalService, *ids: int, **decision: Any) -> Approval:
        offsets.append(json.loads(state.read_text())["memory"]["offset"])
        return await decide(self, *ids, **decision)

    monkeypatch.setattr(ApprovalService, "answer", note_offset)
    with Serving(tmp_path, AskingEngine()) as daemon:
        api.say("do it")
        until(api.list_buttons)
        (asked,) = daemon.client().get("/api/chat/approvals")["approvals"]
        update = api.say(answer.format(asked["id"]))
        until(lambda: "allowed: True" in api.list_texts())
        (offset,) = offsets
        assert (offset > update) is once


def ask_in_turn(daemon: Serving, *questions: Question) -> None:
    """Have the engine ask these one after another for its first prompt, and say the answers."""

    async def run(assignment: TurnRequest, approver: Approver) -> AsyncGenerator[EngineEvent, None]:
        daemon.engine.given.append(assignment)
        for question in questions if len(daemon.engine.given) == 1 else ():
            answer = await approver.ask(question)
            yield ReplyCompleted(f"{answer.allowed}: {answer.reason}")

    daemon.engine.run = run  # type: ignore[method-assign]


def test_what_the_agent_asks_a_person_is_answered_with_words(tmp_path: Path, api: BotApi) -> None:
    configure(tmp_path, api)
    listed = "Which?\n\n- red\n- blue"
    with Serving(tmp_path) as daemon:
        ask_in_turn(
            daemon,
            Question("question", "ask_person", "Which name?"),
            Question("question", "ask_person", listed, choices=("red", "blue")),
            Question("question", "ask_person", "And where?"),
        )
        api.say("do it")
        until(lambda: "The agent asks you" in "".join(api.list_texts()))
        assert list(api.list_buttons()) == ["No answer"]
        (asked,) = daemon.client().get("/api/chat/approvals")["approvals"]
        for text in ("/approve", "/approve always", "blue"):
            before = len(api.list_texts())
            api.say(text)
            until(lambda before=before: len(api.list_texts()) > before)
            assert api.list_texts()[-1].endswith("The agent asks for words: /answer TEXT")
        api.press(f"a:1:{asked['id']}:allow")
        until(lambda: "The agent asks for words: /answer TEXT" in api.list_notes())
        api.say("/answer " + "x" * 1001)
        until(lambda: "An answer has 1,000 characters at most" in api.list_texts())
        api.say("/answer *Ada*")
        until(lambda: "blue" in api.list_buttons())
        assert "True: <i>Ada</i>" in api.list_texts()
        api.press(api.list_buttons()["blue"])
        until(lambda: "And where?" in "".join(api.list_texts()))
        assert "True: blue" in api.list_texts()
        api.press(api.list_buttons()["No answer"])
        until(lambda: "False: A person denied it." in api.list_texts())
        api.say("/answer late")
        until(lambda: "No question is open." in api.list_texts())


def test_commands_show_and_change_the_chat(tmp_path: Path, api: BotApi) -> None:
    configure(tmp_path, api)
    with Serving(tmp_path) as daemon:
        api.say("/status")
        until(lambda: api.list_texts() == ["There is no chat yet: send a message to create one."])
        api.say("first")
        until(lambda: len(api.list_texts()) == 2)
        wait_until_idle(daemon, 1)
        for text, result in [
            ("/help", "/approve and /deny"),
            ("/start", "/approve and /deny"),
            ("/status", "<b>Chat 1</b>"),
            ("/queue", "The queue is empty."),
            ("/model", "• mine"),
            ("/model mine", "Model: mine"),
            ("/model none", "No model is named none"),
            ("/stop", "Nothing is running."),
            ("/approve", "No question is open."),
            ("/nonsense", "/nonsense is not a command of this bot."),
            ("/new", "begins a new chat"),
        ]:
            before = len(api.list_texts())
            api.say(text)
            until(lambda before=before: len(api.list_texts()) > before)
            assert result in api.list_texts()[-1], text
        api.say("second")
        until(lambda: "echo: second" in api.list_texts())
        assert daemon.client().messages(2)[0]["content"] == "second"


def test_a_prompt_that_a_held_queue_keeps_is_not_said_to_be_sent(
    tmp_path: Path, api: BotApi
) -> None:
    configure(tmp_path, api)
    with Serving(tmp_path) as daemon:
        client = daemon.client()
        daemon.engine.hold()
        api.say("first")
        until(lambda: daemon.engine.given)
        api.say("/stop")
        until(lambda: "Stopped." in api.list_texts())
        client.post("/api/MessageQueue/1/hold", {"reason": "Friday."})
        api.say("second")
        until(lambda: "Queued; the queue is held: Friday." in api.list_texts())
        client.post("/api/MessageQueue/1/release", None)
        until(lambda: len(daemon.engine.given) == 2)
        api.say("/stop")
        until(lambda: api.list_texts().count("Stopped.") == 2)
        api.say("third")
        until(lambda: len(daemon.engine.given) == 3)
        assert len([text for text in api.list_texts() if "held" in text]) == 1


def test_a_chat_is_told_to_plan_only_and_to_work_again(tmp_path: Path, api: BotApi) -> None:
    configure(tmp_path, api, model="claude")
    models = "models: [{name: claude, engine: claude-code}, {name: plain, engine: offline}]"
    (tmp_path / "config" / "models.yml").write_text(models)
    with Serving(tmp_path) as daemon:
        api.say("first")
        until(lambda: "echo: first" in api.list_texts())
        for text, result, mode in [
            ("/mode", "usual mode\n• plan: Reads and plans, and changes nothing.", ""),
            ("/mode dream", "The chat's program has no mode dream; /mode shows them", ""),
            ("/mode Plan", "Mode: plan", "plan"),
            ("/mode", "This chat: plan", "plan"),
            ("/status", "mode: plan", "plan"),
            ("/mode off", "Mode: the usual one", ""),
            ("/mode plan", "Mode: plan", "plan"),
        ]:
            before = len(api.list_texts())
            api.say(text)
            until(lambda before=before: len(api.list_texts()) > before)
            assert result in html.unescape(api.list_texts()[-1]), text
            assert daemon.client().get("/api/chat/1")["settings"]["mode"] == mode
        api.say("second")
        until(lambda: "echo: second" in api.list_texts())
        assert [one.mode for one in daemon.engine.given] == ["", "plan"]
        api.say("/model plain")
        until(lambda: "Model: plain" in api.list_texts())
        api.say("/mode")
        until(lambda: "Its program is not known to have others." in api.list_texts()[-1])


def test_stop_ends_the_turn(tmp_path: Path, api: BotApi) -> None:
    configure(tmp_path, api)
    engine = Engine()
    engine.hold()
    with Serving(tmp_path, engine) as daemon:
        api.say("long work")
        until(lambda: list_prompts(daemon))
        until(lambda: [one for one in api.sent if one["method"] == "sendChatAction"])
        api.say("/stop")
        until(lambda: "Stopped." in api.list_texts())
        engine.release()
        api.say("go on")
        until(lambda: "echo: go on" in api.list_texts())


def test_a_stranger_is_ignored_and_logged_once(
    tmp_path: Path, api: BotApi, logged: list[str]
) -> None:
    configure(tmp_path, api)
    with Serving(tmp_path) as daemon:
        for text in ("let me in", "/status", "please"):
            api.say(text, user=666)
        api.press("a:1:1:allow", user=666)
        api.say("mine")
        until(api.list_texts)
        assert list_prompts(daemon) == ["mine"]
        assert not api.list_texts(666)
        until(lambda: not api.waiting)
    assert len([line for line in logged if "666" in line and "ignores" in line]) == 1


def test_updates_that_are_no_messages_are_passed_over(tmp_path: Path, api: BotApi) -> None:
    configure(tmp_path, api)
    with Serving(tmp_path) as daemon:
        api.update(poll={"id": "1", "question": "x"})
        api.update(unheard_of={"x": 1})
        api.say(sticker={"x": 1})
        api.say("after")
        until(lambda: "echo: after" in api.list_texts())
        assert list_prompts(daemon) == ["after"]


# Files.


def test_a_photo_is_put_where_the_agent_sees_it(tmp_path: Path, api: BotApi) -> None:
    configure(tmp_path, api)
    png = b"\x89PNG\r\n\x1a\n" + bytes(100)
    api.files["photo1"] = png
    photo = {"file_id": "photo1", "file_unique_id": "u", "width": 1, "height": 1, "file_size": 108}
    with Serving(tmp_path) as daemon:
        api.say(photo=[photo], caption="What is this?")
        until(lambda: list_prompts(daemon))
        (prompt,) = list_prompts(daemon)
        assert prompt.startswith("What is this?\n\nThe picture: ")
        assert (tmp_path / prompt.rpartition(": ")[2]).read_bytes() == png


def test_a_picture_that_is_sent_as_a_file_is_taken_and_any_other_file_is_refused(
    tmp_path: Path, api: BotApi
) -> None:
    """What is said of a file means nothing to the agent without it."""
    configure(tmp_path, api)
    png = b"\x89PNG\r\n\x1a\n" + bytes(100)
    api.files["plan"] = png
    file = {"file_unique_id": "u", "file_size": 108}
    plan = {"file_id": "plan", "file_name": "der Plan.png", "mime_type": "image/png", **file}
    log = {"file_id": "log", "file_name": "a.log", "mime_type": "text/plain", **file}
    with Serving(tmp_path) as daemon:
        api.say(document=log, caption="Why does it fail?")
        until(api.list_texts)
        assert "photos are understood" in api.list_texts()[0]
        api.say(document=plan, caption="Build this")
        until(lambda: list_prompts(daemon))
        (prompt,) = list_prompts(daemon)
        assert prompt.startswith("Build this\n\nThe picture: ")
        assert (tmp_path / prompt.rpartition(": ")[2]).read_bytes() == png


def test_a_file_that_is_gone_or_no_picture_is_reported(tmp_path: Path, api: BotApi) -> None:
    configure(tmp_path, api)
    api.files["text"] = b"#!/bin/sh\n"
    photo = {"file_unique_id": "u", "width": 1, "height": 1}
    with Serving(tmp_path) as daemon:
        api.say(photo=[photo | {"file_id": "gone"}])
        until(api.list_texts)
        assert "no longer exists" in api.list_texts()[0]
        api.say(photo=[photo | {"file_id": "text"}])
        until(lambda: len(api.list_texts()) == 2)
        assert not list_prompts(daemon)
        assert get_bot(daemon)["running"]


def test_voice_that_cannot_be_received_here_is_reported(tmp_path: Path, api: BotApi) -> None:
    configure(tmp_path, api)
    (tmp_path / "config" / "speech.yml").write_text(
        "engines:\n  - {name: e, engine: command, command: [no-such-program, '{file}']}\n"
    )
    api.files["voice1"] = b"OggS"
    with Serving(tmp_path) as daemon:
        api.say(voice={"file_id": "voice1", "file_unique_id": "u", "duration": 1})
        until(api.list_texts)
        assert "no-such-program" in api.list_texts()[0] or NO_SPEECH in api.list_texts()[0]
        assert not list_prompts(daemon)


# Trouble.


def test_a_network_that_is_gone_is_waited_out(tmp_path: Path) -> None:
    port = find_free_port()
    with BotApi(port) as first:
        configure(tmp_path, first)
    with Serving(tmp_path) as daemon:
        until(lambda: get_bot(daemon)["pollingError"])
        assert get_bot(daemon)["running"]
        with BotApi(port) as back:
            back.say("hello")
            until(lambda: back.list_texts() == ["echo: hello"])
            assert get_bot(daemon)["pollingError"] is None


@pytest.mark.parametrize("answer", [REVOKED, refuse_call(404, "Not Found")], ids=["401", "404"])
@pytest.mark.parametrize("when", ["at the start", "later"])
def test_a_revoked_token_is_reported_and_nobody_hammers(
    tmp_path: Path, api: BotApi, answer: tuple[int, bytes], when: str
) -> None:
    path = configure(tmp_path, api)
    if when == "at the start":
        api.fault = lambda method: answer
    with Serving(tmp_path) as daemon:
        if when == "later":
            until(lambda: get_bot(daemon)["running"])
            api.fault = lambda method: answer
            api.say("wake")
        until(lambda: get_bot(daemon)["pollingError"] and not get_bot(daemon)["running"])
        assert "@BotFather" in get_bot(daemon)["pollingError"]
        calls = len(api.calls)
        api.fault = lambda method: None
        configure(tmp_path, api, title="Other")
        until(lambda: get_bot(daemon)["running"])
        assert api.calls[calls] == "getMe", "nothing was called before the file was edited"
        assert path.exists()


def test_another_program_that_polls_is_reported_and_waited_out(tmp_path: Path, api: BotApi) -> None:
    configure(tmp_path, api)
    api.fault = lambda method: OTHER_POLLER if method == "getUpdates" else None
    with Serving(tmp_path) as daemon:
        until(lambda: "another program" in (get_bot(daemon)["pollingError"] or ""))
        api.fault = lambda method: None
        until(lambda: get_bot(daemon)["pollingError"] is None)


def test_flood_limits_are_obeyed_and_nothing_is_lost(tmp_path: Path, api: BotApi) -> None:
    configure(tmp_path, api)
    called: list[float] = []

    def flood(method: str) -> tuple[int, bytes] | None:
        if method != "sendMessage":
            return None
        called.append(time.monotonic())
        limited = refuse_call(429, "Too Many Requests: retry after 1", retry_after=1)
        return limited if len(called) == 1 else None

    api.fault = flood
    with Serving(tmp_path):
        api.say("hello")
        until(lambda: api.list_texts() == ["echo: hello"])
        first, second = called
        assert second - first >= 1


@pytest.mark.parametrize(
    "garbage",
    [
        (200, b"<html>captive portal</html>"),
        (200, b'{"ok":true}'),
        (200, b'{"ok":true,"result":"x"}'),
        (200, b'{"ok":true,"result":[{"x":1}]}'),
        (200, b'{"ok":true,"result":[{"update_id":1,"message":{"x":1}}]}'),
        (200, b"[]"),
        (200, b"\xff\xfe\x00"),
        (404, b"<html>not here</html>"),
        (502, f"<html>bot{TOKEN} is unreachable</html>".encode()),
        (500, b"[]"),
    ],
    ids=str,
)
def test_garbage_is_survived(tmp_path: Path, api: BotApi, garbage: tuple[int, bytes]) -> None:
    configure(tmp_path, api)
    api.fault = lambda method: garbage if method == "getUpdates" else None
    with Serving(tmp_path) as daemon:
        until(lambda: get_bot(daemon)["pollingError"])
        api.fault = lambda method: None
        api.say("hello")
        until(lambda: api.list_texts() == ["echo: hello"])
        assert get_bot(daemon)["pollingError"] is None


def test_what_telegram_will_not_show_with_styles_is_sent_without(
    tmp_path: Path, api: BotApi
) -> None:
    configure(tmp_path, api)
    api.fault = lambda method: (
        refuse_call(400, "Bad Request: can't parse entities")
        if method == "sendMessage" and api.calls.count(method) == 1
        else None
    )
    with Serving(tmp_path):
        api.say("**bold**")
        until(lambda: api.list_texts() == ["echo: **bold**"])


def test_a_client_that_has_blocked_the_bot_receives_nothing_more(
    tmp_path: Path, api: BotApi
) -> None:
    configure(tmp_path, api)
    refused: list[str] = []

    def block_first(method: str) -> tuple[int, bytes] | None:
        if method != "sendMessage" or refused:
            return None
        refused.append(method)
        return refuse_call(403, "Forbidden: bot was blocked by the user")

    api.fault = block_first
    with Serving(tmp_path) as daemon:
        api.say("one")
        until(lambda: refused)
        api.say("two")
        until(lambda: api.list_texts() == ["echo: two"])
        assert get_bot(daemon)["running"]


def test_without_the_library_the_bot_says_how_to_get_it(
    tmp_path: Path, api: BotApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "telegram.request", None)
    configure(tmp_path, api)
    with Serving(tmp_path) as daemon:
        until(lambda: get_bot(daemon)["pollingError"])
        assert "agentd-workstation[telegram]" in get_bot(daemon)["pollingError"]
        assert not get_bot(daemon)["running"]
        assert not api.calls


# Linking.


def test_linking_is_silent_until_a_person_takes_the_chat_up(tmp_path: Path, api: BotApi) -> None:
    """Specification 2: linking never posts to a messaging platform."""
    configure(tmp_path, api)
    with Serving(tmp_path) as daemon:
        until(lambda: get_bot(daemon)["running"])
        client = daemon.client()
        reply = client.post("/api/remote/chats", {"prompt": "quiet", "botId": BOT})
        assert (reply["botLinked"], reply["botLinkNote"]) == (True, "")
        other = client.create_chat(prompt="not linked")
        chat = reply["chatId"]
        client.messages(chat)
        api.say("/queue")
        until(api.list_texts)
        assert api.list_texts() == ["There is no chat yet: send a message to create one."]
        api.say(f"/chat {other}")
        until(lambda: len(api.list_texts()) == 2)
        assert "not linked to this bot" in api.list_texts()[-1]
        api.say(f"/chat {chat}")
        until(lambda: len(api.list_texts()) == 3)
        client.post(f"/api/remote/chats/{chat}/queue", {"prompt": "loud"})
        until(lambda: api.list_texts()[3:] == ["echo: loud"])


def test_a_bot_that_is_off_links_nothing_and_runs_not(tmp_path: Path, api: BotApi) -> None:
    configure(tmp_path, api, enabled=False)
    with Serving(tmp_path) as daemon:
        assert get_bot(daemon)["running"] is False
        reply = daemon.client().post("/api/remote/chats", {"botId": BOT})
        assert reply.status == 201
        assert reply["botLinked"] is False
        assert "switched off" in reply["botLinkNote"]
        assert not api.calls


# Restarts.


def test_what_was_said_while_the_daemon_was_down_is_received_and_reported(
    tmp_path: Path, api: BotApi
) -> None:
    configure(tmp_path, api)
    with Serving(tmp_path):
        api.say("one")
        until(lambda: api.list_texts() == ["echo: one"])
    api.say("two")
    with Serving(tmp_path) as daemon:
        until(lambda: api.list_texts() == ["echo: one", "echo: two"])
        assert list_prompts(daemon) == ["two"]
        assert len(list(Path(daemon.layout.chats).iterdir())) == 1


def test_a_deleted_chat_is_followed_by_a_new_one(tmp_path: Path, api: BotApi) -> None:
    configure(tmp_path, api)
    with Serving(tmp_path) as daemon:
        api.say("one")
        until(lambda: len(api.list_texts()) == 1)
        wait_until_idle(daemon, 1)
        assert daemon.client().delete("/api/chats/1").status in (200, 204)
        api.say("two")
        until(lambda: "echo: two" in api.list_texts())
        assert daemon.client().messages(2)[0]["content"] == "two"


@pytest.mark.parametrize("is_running", [True, False])
def test_nothing_of_a_chat_that_is_deleted_for_good_stays_in_a_bots_state(
    tmp_path: Path, api: BotApi, is_running: bool
) -> None:
    configure(tmp_path, api)
    engine = Engine()
    engine.says = lambda given: [ReplyCompleted(f"Done\n[[Again|{given.prompt} once more]]")]
    with Serving(tmp_path, engine) as daemon:
        path = Path(daemon.layout.get_bot_state_path(BOT))
        buttons = []
        for number, text in enumerate(("/new secret", "/new plain"), 1):
            api.say(text)
            until(lambda number=number: len(api.list_texts()) == number)
            buttons.append(api.list_buttons()["Again"])
            wait_until_idle(daemon, number)
        until(lambda: not api.waiting)
        if not is_running:
            configure(tmp_path, api, enabled=False)
            until(lambda: not get_bot(daemon)["running"])
        client = daemon.client()
        assert client.delete("/api/chats/1").status == 200
        assert b"secret once more" in path.read_bytes()  # the chat can be restored
        assert client.delete("/api/chats/trash/1").status == 204
        assert b"secret" not in path.read_bytes()
        assert b"plain once more" in path.read_bytes()
        if is_running:
            api.press(buttons[0])
            until(lambda: "That button is too old." in api.list_notes())
            assert list_prompts(daemon) == ["secret", "plain"]


def test_a_bot_begins_changes_and_ends_with_its_file(tmp_path: Path, api: BotApi) -> None:
    with Serving(tmp_path) as daemon:
        assert daemon.client().get("/api/remote/bots")["bots"] == []
        path = configure(tmp_path, api)
        until(
            lambda: daemon.client().get("/api/remote/bots")["bots"] and get_bot(daemon)["running"]
        )
        path.write_text("bots: [{id: 7up, tokn: x}]\n")
        api.say("still there?")
        until(lambda: api.list_texts() == ["echo: still there?"])
        path.unlink()
        until(lambda: daemon.client().get("/api/remote/bots")["bots"] == [])


def test_a_chat_that_cannot_be_read_holds_up_no_other_conversation(
    tmp_path: Path, api: BotApi
) -> None:
    configure(tmp_path, api, users=[USER, OTHER_USER])
    with Serving(tmp_path) as daemon:
        api.say("one")
        until(lambda: api.list_texts() == ["echo: one"])
        journal = Path(daemon.layout.get_journal_path(1))
    journal.write_bytes(b"x" + journal.read_bytes())
    with Serving(tmp_path) as daemon:
        for command in ("/status", "/mode plan", "/approve", "/chat 1", "more"):
            count = len(api.list_texts())
            api.say(command)
            until(lambda: len(api.list_texts()) > count)  # noqa: B023 - called at once
        assert set(api.list_texts()[1:]) == {"Chat 1 cannot be read. Try /new"}
        api.say("two", OTHER_USER)
        until(lambda: api.list_texts(OTHER_USER) == ["echo: two"])
        assert get_bot(daemon)["pollingError"] is None


# Several people.

GROUP = {"id": -5, "type": "group", "title": "Ours"}
PHOTO = {"file_id": "photo1", "file_unique_id": "u", "width": 1, "height": 1, "file_size": 108}


def test_a_person_who_is_no_longer_obeyed_sees_nothing_more_of_the_chat(
    tmp_path: Path, api: BotApi
) -> None:
    configure(tmp_path, api, users=[USER, OTHER_USER])
    with Serving(tmp_path) as daemon:
        api.say("one", OTHER_USER)
        until(lambda: api.list_texts(OTHER_USER) == ["echo: one"])
        api.say("two", OTHER_USER, chat=GROUP)
        until(lambda: api.list_texts(-5) == ["echo: two"])
        api.say("/chat 1")
        until(api.list_texts)
        calls = len(api.calls)
        configure(tmp_path, api)
        until(lambda: "getMe" in api.calls[calls:])
        for chat in (1, 2):
            client = daemon.client()
            client.post(f"/api/remote/chats/{chat}/queue", {"prompt": "secret"})
            wait_until_idle(daemon, chat)
        until(lambda: "echo: secret" in api.list_texts())
        api.say("/chat 2")
        until(lambda: "<b>Chat 2</b>" in api.list_texts()[-1])
        assert api.list_texts(OTHER_USER) == ["echo: one"]
        assert api.list_texts(-5) == ["echo: two"]
        api.say("three", chat=GROUP)  # somebody who is obeyed is there, too
        until(lambda: api.list_texts(-5) == ["echo: two", "echo: secret", "echo: three"])


def test_a_conversation_that_must_wait_holds_up_no_other(
    tmp_path: Path, api: BotApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(tmp_path, api, users=[USER, OTHER_USER])
    monkeypatch.setattr(polling, "LEAVE_SECONDS", 0.1)
    answer = api.answer

    def flood(method: str, given: dict[str, str]) -> tuple[int, bytes]:
        if method == "sendMessage" and given["chat_id"] == str(USER):
            return refuse_call(429, "Too Many Requests: retry after 3600", retry_after=3600)
        return answer(method, given)

    api.answer = flood  # type: ignore[method-assign]
    with Serving(tmp_path) as daemon:
        api.say("one")
        until(lambda: api.calls.count("sendChatAction") or daemon.client().status(1))
        api.say("/status")
        api.say("two", OTHER_USER)
        until(lambda: api.list_texts(OTHER_USER) == ["echo: two"])
        api.say("/new three")
        until(lambda: list_prompts(daemon) == ["one", "two", "three"])


def test_a_file_that_cannot_be_fetched_holds_up_nobody_for_long(
    tmp_path: Path, api: BotApi
) -> None:
    configure(tmp_path, api, users=[USER, OTHER_USER])
    broken = refuse_call(500, "Internal Server Error")
    api.fault = lambda method: broken if method == "getFile" else None
    with Serving(tmp_path) as daemon:
        api.say(photo=[PHOTO], caption="What is this?")
        api.say("two", OTHER_USER)
        until(lambda: api.list_texts(OTHER_USER) == ["echo: two"])
        until(lambda: api.list_texts() == ["The file could not be fetched; send it again"])
        assert list_prompts(daemon) == ["two"]


def test_a_file_is_fetched_though_the_first_attempt_fails(tmp_path: Path, api: BotApi) -> None:
    configure(tmp_path, api)
    api.files["photo1"] = b"\x89PNG\r\n\x1a\n" + bytes(100)
    api.fault = lambda method: (
        refuse_call(502, "Bad Gateway")
        if method == "getFile" and api.calls.count(method) == 1
        else None
    )
    with Serving(tmp_path) as daemon:
        api.say(photo=[PHOTO], caption="What is this?")
        until(lambda: list_prompts(daemon))


def test_a_command_for_another_bot_of_the_group_is_not_obeyed(tmp_path: Path, api: BotApi) -> None:
    configure(tmp_path, api)
    with Serving(tmp_path, AskingEngine()):
        api.say("do it", chat=GROUP)
        until(api.list_buttons)
        other = api.say("/approve@another_bot", chat=GROUP)
        until(lambda: other not in api.waiting)
        assert len(api.list_texts(-5)) == 1
        api.say("/approve@The_Bot", chat=GROUP)
        until(lambda: "allowed: True" in api.list_texts(-5))


def test_a_token_that_is_refused_for_a_reply_alone_is_reported(tmp_path: Path, api: BotApi) -> None:
    configure(tmp_path, api)
    api.fault = lambda method: REVOKED if method == "sendMessage" else None
    with Serving(tmp_path) as daemon:
        api.say("hello")
        until(lambda: get_bot(daemon)["pollingError"] and not get_bot(daemon)["running"])
        api.fault = lambda method: None
        configure(tmp_path, api, title="Other")
        until(lambda: api.list_texts() == ["echo: hello"])


def test_a_reply_is_sent_though_the_bot_is_changed_at_once(tmp_path: Path, api: BotApi) -> None:
    configure(tmp_path, api)
    slow = refuse_call(429, "Too Many Requests: retry after 1", retry_after=1)
    api.fault = lambda method: (
        slow if method == "sendMessage" and api.calls.count(method) == 1 else None
    )
    with Serving(tmp_path):
        api.say("/help")
        until(lambda: "sendMessage" in api.calls)
        configure(tmp_path, api, title="Other")
        until(lambda: len(api.list_texts()) == 1)


def test_a_group_that_becomes_a_supergroup_keeps_its_chat(tmp_path: Path, api: BotApi) -> None:
    configure(tmp_path, api)
    moved = {"id": -1005, "type": "supergroup", "title": "Ours"}
    answer, move_is_known = api.answer, threading.Event()
    upgraded = refuse_call(
        400, "Bad Request: group chat was upgraded to a supergroup chat", migrate_to_chat_id=-1005
    )

    def answer_after_move(method: str, given: dict[str, str]) -> tuple[int, bytes]:
        if given.get("chat_id") == "-5":
            return upgraded
        told = answer(method, given)
        if method == "sendMessage":
            move_is_known.wait(PATIENCE)
        return told

    with Serving(tmp_path) as daemon:
        api.say("one", chat=GROUP)
        until(lambda: api.list_texts(-5) == ["echo: one"])
        api.answer = answer_after_move  # type: ignore[method-assign]
        daemon.client().post("/api/remote/chats/1/queue", {"prompt": "before it is known"})
        until(lambda: api.list_texts(-1005) == ["echo: before it is known"])
        told = api.say(user=OTHER_USER, chat=GROUP, migrate_to_chat_id=-1005)
        until(lambda: told not in api.waiting)
        move_is_known.set()
        api.say(user=OTHER_USER, chat=moved, migrate_from_chat_id=-5)
        api.say("two", chat=moved)
        until(lambda: api.list_texts(-1005)[1:] == ["echo: two"])
        assert [one["content"] for one in daemon.client().messages(1)][-2:] == ["two", "echo: two"]


def test_what_telegram_itself_says_of_a_conversation_is_not_answered(
    tmp_path: Path, api: BotApi
) -> None:
    configure(tmp_path, api)
    bot = {"id": 123456789, "is_bot": True, "first_name": "Bot", "username": "the_bot"}
    with Serving(tmp_path):
        api.say(chat=GROUP, new_chat_members=[bot])
        api.say(chat=GROUP, new_chat_title="Theirs")
        api.say("one", chat=GROUP)
        until(lambda: api.list_texts(-5) == ["echo: one"])
        sticker = {"file_id": "s", "file_unique_id": "u", "type": "regular", "width": 1}
        more = {"height": 1, "is_animated": False, "is_video": False}
        api.say(chat=GROUP, sticker=sticker | more)
        until(lambda: "are understood here" in api.list_texts(-5)[-1])


def test_a_webhook_that_takes_the_updates_is_told_as_one(tmp_path: Path, api: BotApi) -> None:
    configure(tmp_path, api)
    taken = "Conflict: can't use getUpdates method while webhook is active"
    api.fault = lambda method: refuse_call(409, taken) if method == "getUpdates" else None
    with Serving(tmp_path) as daemon:
        until(lambda: "deleteWebhook" in (get_bot(daemon)["pollingError"] or ""))
