"""A session of an editor: one chat, followed over its live events in a thread of its own."""

import json
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

from agentd.acp.commands import OfferedCommands
from agentd.acp.connection import EditorConnection
from agentd.acp.daemon import DaemonApi
from agentd.acp.messages import AcpJson
from agentd.acp.options import make_modes, make_options
from agentd.acp.prompts import (
    CLOSED,
    DELETED,
    NOT_SENT,
    AcceptedPrompts,
    EditorPrompt,
    EditorPrompts,
)
from agentd.acp.questions import EditorQuestions
from agentd.acp.servers import SessionServers
from agentd.acp.transcript import Transcript
from agentd.acp.updates import Update
from agentd.core.errors import AgentdError, NotFound, Unauthorized, Unavailable
from agentd.core.sse import ServerSentEvent

log = logging.getLogger(__name__)

FIRST_DELAY, LONGEST_DELAY = 0.1, 5.0
"""Seconds between attempts to reconnect."""
_PAGE = 200
_CONSISTENT = 10
"""Attempts to read the chat while no message is added to it."""


class EditorSession:
    """Follows one chat; what the editor waits for and what it shows is guarded by one lock."""

    def __init__(
        self,
        daemon: DaemonApi,
        connection: EditorConnection,
        chat_id: int,
        root: str,
        read_choices: Callable[[int], Any],
        *,
        forms: bool,
    ) -> None:
        self.chat_id = chat_id
        self._daemon = daemon
        self._connection = connection
        self._read_choices = read_choices
        self._lock = threading.RLock()
        self._transcript = Transcript(self.send_update, root, uuid4().hex[:8])
        self._prompts = EditorPrompts()
        self.accepted = AcceptedPrompts()
        self._questions = EditorQuestions(
            daemon, connection, chat_id, self._transcript, self.send_update, forms=forms
        )
        self._title = ""
        self._offered: object = None
        self.commands = OfferedCommands(daemon, chat_id, self.send_update)
        self._closed = threading.Event()
        self.servers = SessionServers(daemon, chat_id)

    @property
    def id(self) -> str:
        """The session's id for the editor."""
        return str(self.chat_id)

    @property
    def root(self) -> str:
        """The folder that the chat works in."""
        return self._transcript.root

    @property
    def is_empty(self) -> bool:
        """True if the chat has no message that this session has seen, and no prompt."""
        return not self._transcript.seen and not self._prompts.open

    def follow(self) -> None:
        """Begin to follow the chat."""
        threading.Thread(target=self._follow, daemon=True).start()

    def close(self, why: str = CLOSED) -> None:
        """End the session; whoever waits for a prompt is told, and prompts go on without it."""
        self._closed.set()
        self.servers.forget()
        self._end_waits(why)

    def replay(self) -> None:
        """Show the whole history."""
        with self._lock:
            self._show_new_messages(is_replay=True)

    def skip(self) -> None:
        """Count all messages as shown."""
        found = self._daemon.call("GET", f"/api/chat/{self.chat_id}/messages?limit=1")["messages"]
        self._transcript.seen = found[-1]["id"] if found else 0

    def send_update(self, update: Update) -> None:
        """Send an update to the editor."""
        self._connection.notify("session/update", {"sessionId": self.id, "update": update})

    def prompt(self, prompt: EditorPrompt) -> None:
        """Queue a prompt that was not cancelled, and return once its turn has ended."""
        path = f"/api/remote/chats/{self.chat_id}/queue"
        self.servers.repeat()
        if prompt.before:
            prompt.before.sent.wait()
            prompt.before = None
        with self._lock:  # the events about it are read only when its id is known
            if self._closed.is_set():
                prompt.failure = NOT_SENT
            if prompt.cancelled or prompt.failure:
                return
            body = {"prompt": prompt.text}
            prompt.id = self._daemon.call("POST", path, body, once=uuid4().hex)["id"]
            self._prompts.add(prompt)
        prompt.sent.set()
        prompt.ended.wait()

    def cancel(self) -> None:
        """End the turn of the editor's prompt, and take back those that wait or were accepted.

        Without a daemon the editor is answered at once, and they are taken back when it is there.
        """
        self.accepted.cancel()
        with self._lock:
            prompts = list(self._prompts.open)
        try:
            for prompt in prompts:
                self._take_back(prompt)
        except Unavailable as error:
            log.warning("chat %d: cancelled later: %s", self.chat_id, error.message)
            for prompt in prompts:
                prompt.ended.set()

    def show_options(self) -> Any:
        """Return the choices of the session; tell the editor when they have changed."""
        choices = self._read_choices(self.chat_id)
        if self._offered not in (None, choices):
            mode = make_modes(choices)["currentModeId"]
            self.send_update({"sessionUpdate": "current_mode_update", "currentModeId": mode})
            options = make_options(choices)
            self.send_update({"sessionUpdate": "config_option_update", "configOptions": options})
        self._offered = choices
        return choices

    def _take_back(self, prompt: EditorPrompt) -> None:
        if self._prompts.is_queued(prompt):
            path = f"/api/remote/chats/{self.chat_id}/queue/{prompt.id}"
            try:
                self._daemon.call("DELETE", path)
            except NotFound:
                log.info("prompt %d has just left the queue", prompt.id)
            else:
                return
        self._daemon.call("POST", f"/api/chat/{self.chat_id}/stop")

    def _follow(self) -> None:
        delay = FIRST_DELAY
        while not self._closed.is_set():
            try:
                for event in self._daemon.listen(self.chat_id):
                    delay = FIRST_DELAY
                    if self._closed.is_set():
                        return
                    with self._lock:
                        self._on_event(event)
            except BrokenPipeError:
                return
            except NotFound:
                self._end_deleted()
                return
            except AgentdError as error:
                if isinstance(error, Unauthorized):  # nothing more can be shown
                    self._end_waits(f"{error.message}\n{error.details}")
                log.info("chat %d: %s; connecting again", self.chat_id, error.message)
            except (ValueError, KeyError, TypeError):
                log.exception("chat %d: an event could not be read; connecting again", self.chat_id)
            self._closed.wait(delay)
            delay = min(2 * delay, LONGEST_DELAY)

    def _on_event(self, event: ServerSentEvent) -> None:
        match event.name, json.loads(event.data):
            case (("resumed" | "gap"), _):
                self.servers.repeat()
                self._synchronize()
            case "messageUpdate", [_, message] if message["id"] > self._transcript.seen:
                self._show_new_messages(message["id"])
            case "messageDelta", [_, delta]:
                if not self._transcript.show_delta(delta["turn"], delta["text"], delta["number"]):
                    self._synchronize()
            case "thinkingDelta", [_, delta]:
                self._transcript.show_thinking(delta["turn"], delta["text"], delta["number"])
            case "approvalUpdate", [_, approval]:
                self._questions.take(approval)
            case "queueUpdate", [_, prompts]:
                self._prompts.on_queue([one["id"] for one in prompts])
            case "chatUpdate", [chat]:
                self._on_chat(chat)
            case "chatDeleted", _:
                self._end_deleted()
            case (("modelsUpdate" | "skillsUpdate" | "settingsUpdate"), _):
                self.show_options()

    def _on_chat(self, chat: AcpJson) -> None:
        if chat["reason"] == "tool.started":
            self._show_running_tools(self._read_chat()["turn"])
        if chat["reason"] == "turn.ended":
            running = self._prompts.running
            failed = bool(running and (running.failure or running.cancelled))
            self._transcript.end_turn(failed=failed)
            self.commands.tell()
        if chat["reason"] == "chat.changed":
            self.show_options()
        self._show_title(chat["title"], chat["updatedAt"])
        self._prompts.on_record(chat["reason"], chat["seq"])

    def _show_title(self, title: str, at: str) -> None:
        if title != self._title:
            if self._title:
                update = {"sessionUpdate": "session_info_update", "title": title, "updatedAt": at}
                self.send_update(update)
            self._title = title

    def _show_running_tools(self, turn: AcpJson | None) -> None:
        self._transcript.show_running_tools(turn["tools"] if turn else ())

    def _show_new_messages(self, shown_until: int = 0, *, is_replay: bool = False) -> None:
        """Show the messages that are new; prompts after ``told`` wait for their own events.

        Until then it is not known whether they are the editor's.
        """
        base = f"/api/chat/{self.chat_id}/messages?limit={_PAGE}&after="
        while True:
            page = self._daemon.call("GET", f"{base}{self._transcript.seen}")
            for message in page["messages"]:
                if shown_until and message["id"] > shown_until and message["role"] == "user":
                    return
                if not is_replay and self._prompts.on_message(message):
                    self._transcript.skip_message(message)
                else:
                    self._transcript.show_message(message)
            if not page["later"]:
                return

    def _synchronize(self) -> None:
        """Show what the chat has become, read while nothing is added to it."""
        chat = self._read_chat()
        for _ in range(_CONSISTENT):
            queue = self._daemon.call("GET", f"/api/remote/chats/{self.chat_id}/queue")["prompts"]
            self._prompts.take_queue([one["id"] for one in queue])
            self._show_new_messages()
            before, chat = chat, self._read_chat()
            if before["chat"]["messageCount"] == chat["chat"]["messageCount"]:
                break
        reply, turn = chat["runningReply"], chat["turn"]
        if reply:
            self._transcript.show_running(reply["turn"], reply["text"], reply["number"])
        else:
            self._transcript.end_turn(failed=False)
        self._show_title(chat["chat"]["title"], chat["chat"]["updatedAt"])
        self._show_running_tools(turn)
        self._questions.synchronize(chat["approvals"])
        self._prompts.synchronize([one["id"] for one in queue], turn["turn"] if turn else 0)
        for prompt in self._prompts.list_answered():
            self._take_back(prompt)

    def _read_chat(self) -> Mapping[str, Any]:
        return self._daemon.call("GET", f"/api/chat/{self.chat_id}")

    def _end_waits(self, why: str) -> None:
        with self._lock:
            self._prompts.end_all(why)
            self._questions.withdraw_all()

    def _end_deleted(self) -> None:
        self.close(DELETED)
        log.info("chat %d: %s", self.chat_id, DELETED)
