"""The methods of the Agent Client Protocol, carried out by a running daemon."""

import logging
import os.path
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO

from agentd import __version__
from agentd.acp.blocks import attach, read_prompt
from agentd.acp.connection import EditorConnection, Method
from agentd.acp.daemon import DaemonApi, find_folder, read_setting
from agentd.acp.messages import VERSION, AcpInvalidParams, AcpJson, get_object, get_text
from agentd.acp.options import (
    MODE,
    Choices,
    make_change,
    make_modes,
    make_options,
    read_choices,
)
from agentd.acp.prompts import DELETED, EditorPrompt
from agentd.acp.servers import read_servers
from agentd.acp.session import EditorSession
from agentd.acp.updates import make_chunk
from agentd.core.errors import AgentdError, NotFound, Unavailable

log = logging.getLogger(__name__)

MOST_SESSIONS = 100
"""Chats that an editor may have open."""
TITLE = "Chat from the editor"
"""The title of a chat until its first prompt."""
_TITLE_LENGTH = 60
_PAGE = 50
_SIGN_IN = "Set AGENTD_KEY in the agent's environment to a key: agentd keys generate editor"
_OPENED = (
    "The person has opened the folder {folder}/ of the workspace in the editor. Unless they say"
    " otherwise, they speak of that folder: paths in their prompts are relative to it, and yours"
    " are relative to the workspace."
)
_WITHOUT_SERVERS = "The editor's MCP servers are not used"


class AcpServer:
    """Serves one editor; ``isolated``: each new chat works in a git work tree of its own."""

    def __init__(self, daemon: DaemonApi, output: BinaryIO, *, isolated: bool = False) -> None:
        self._daemon = daemon
        self._connection = EditorConnection(output)
        self._isolated = isolated
        self._capabilities: AcpJson = {}
        self._lock = threading.Lock()
        self._sessions: dict[str, EditorSession] = {}
        self._new: set[str] = set()
        """Sessions whose chats were made by this process and have no prompt yet."""

    def serve(self, lines: Iterator[bytes]) -> None:
        """Answer until the editor hangs up; then leave no empty chats behind."""
        methods = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new_session,
            "session/load": self._load_session,
            "session/resume": self._resume_session,
            "session/list": self._list_sessions,
            "session/close": self._close_session,
            "session/delete": self._delete_session,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_option,
        }
        opening = ("session/new", "session/load", "session/resume")
        self._connection.serve(
            lines,
            methods,
            {"session/cancel": self._cancel},
            dict.fromkeys(opening, self._tell_commands),
            {"session/prompt": self._accept_prompt},
        )
        self._connection.join()
        for session in list(self._sessions.values()):
            self._discard(session)

    def _initialize(self, params: AcpJson) -> dict[str, Any]:
        self._capabilities = get_object(params, "clientCapabilities")
        return {
            "protocolVersion": VERSION,
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": False},
                "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}, "close": {}},
                "auth": {},
            },
            "authMethods": [{"id": "key", "name": "API key", "description": _SIGN_IN}],
            "agentInfo": {"name": "agentd", "title": "agentd", "version": __version__},
        }

    def _authenticate(self, params: AcpJson) -> dict[str, Any]:
        self._daemon.call("GET", "/api/chats?limit=1")
        return {}

    def _new_session(self, params: AcpJson) -> dict[str, Any]:
        root = self._require_workspace(get_text(params, "cwd"))
        if len(self._sessions) >= MOST_SESSIONS:
            raise Unavailable(f"An editor may have {MOST_SESSIONS} sessions open", "Close some.")
        wish: dict[str, object] = {"title": TITLE}
        if self._isolated:
            wish["worktree"] = True
        if opened := _find_opened(get_text(params, "cwd"), root):
            wish["systemPrompt"] = _OPENED.format(folder=opened)
        chat_id = int(self._daemon.call("POST", "/api/remote/chats", wish)["chatId"])
        session = self._open(chat_id, root)
        self._new.add(session.id)
        self._name_servers(session, params)
        session.follow()
        return {"sessionId": session.id, **self._describe_choices(session)}

    def _load_session(self, params: AcpJson) -> dict[str, Any]:
        session = self._reopen(params)
        session.replay()
        self._name_servers(session, params)
        session.follow()
        return self._describe_choices(session)

    def _resume_session(self, params: AcpJson) -> dict[str, Any]:
        session = self._reopen(params)
        session.skip()
        self._name_servers(session, params)
        session.follow()
        return self._describe_choices(session)

    def _list_sessions(self, params: AcpJson) -> dict[str, Any]:
        workspace = read_setting(self._daemon, "workspace")
        cwd = get_text(params, "cwd")
        if cwd and not _is_within(cwd, workspace):
            return {"sessions": []}
        cursor = get_text(params, "cursor")
        if cursor and not cursor.isdecimal():
            raise AcpInvalidParams("The cursor is none of ours")
        before = f"&before={cursor}" if cursor else ""
        page = self._daemon.call("GET", f"/api/chats?limit={_PAGE}{before}")
        sessions = [
            {
                "sessionId": str(chat["chatId"]),
                "cwd": workspace,
                "title": chat["title"],
                "updatedAt": chat["updatedAt"],
            }
            for chat in page["chats"]
        ]
        following = {"nextCursor": str(page["next"])} if page["next"] else {}
        return {"sessions": sessions, **following}

    def _close_session(self, params: AcpJson) -> dict[str, Any]:
        session = self._find(params)
        session.cancel()
        self._discard(session)
        return {}

    def _delete_session(self, params: AcpJson) -> dict[str, Any]:
        name = _require_session_id(params)
        self._daemon.call("DELETE", f"/api/chats/{name}")
        if session := self._sessions.pop(name, None):
            session.close(DELETED)
        return {}

    def _accept_prompt(self, params: AcpJson) -> Method:
        """Return what answers a prompt, which can be cancelled from now on."""
        session = self._sessions.get(get_text(params, "sessionId"))
        return partial(self._prompt, session.accepted.add() if session else None)

    def _prompt(self, accepted: EditorPrompt | None, params: AcpJson) -> dict[str, Any]:
        session = self._find(params)
        prompt = accepted or session.accepted.add()
        try:
            self._send_prompt(session, prompt, params)
        finally:
            session.accepted.remove(prompt)
        if not prompt.stop_reason:
            raise AgentdError(prompt.failure)
        if prompt.failure and not prompt.cancelled:
            session.send_update(make_chunk("agent", prompt.failure))
        return {"stopReason": prompt.stop_reason}

    def _send_prompt(self, session: EditorSession, prompt: EditorPrompt, params: AcpJson) -> None:
        content = read_prompt(params, session.root)
        paths = [self._daemon.upload_picture(one.data, one.type) for one in content.pictures]
        if session.id in self._new and not prompt.cancelled:
            self._new.discard(session.id)
            self._name_chat(session, content.text)
        prompt.text = attach(content.text, paths)
        session.prompt(prompt)

    def _cancel(self, params: AcpJson) -> None:
        self._find(params).cancel()

    def _set_mode(self, params: AcpJson) -> dict[str, Any]:
        self._change(self._find(params), MODE, params.get("modeId"))
        return {}

    def _set_option(self, params: AcpJson) -> dict[str, Any]:
        session = self._find(params)
        self._change(session, get_text(params, "configId"), params.get("value"))
        return {"configOptions": make_options(session.show_options())}

    def _change(self, session: EditorSession, option: str, value: object) -> None:
        change = make_change(self._read_choices(session.chat_id), option, value)
        self._daemon.call("PUT", f"/api/chat/{session.chat_id}/settings", change)

    def _describe_choices(self, session: EditorSession) -> dict[str, Any]:
        choices = session.show_options()
        return {"modes": make_modes(choices), "configOptions": make_options(choices)}

    def _read_choices(self, chat_id: int) -> Choices:
        chat = self._daemon.call("GET", f"/api/chat/{chat_id}")
        models = self._daemon.call("GET", "/api/models")
        skills = self._daemon.call("GET", "/api/skills")
        approvals = read_setting(self._daemon, "approvals")
        return read_choices(chat["settings"], models, skills, approvals)

    def _require_workspace(self, cwd: str) -> str:
        """Return the daemon's workspace, in which the editor's folder must be."""
        if not os.path.isabs(cwd):
            raise AcpInvalidParams("cwd must be an absolute path")
        workspace = read_setting(self._daemon, "workspace")
        if not _is_within(cwd, workspace):
            raise AcpInvalidParams(
                f"This agentd works in {workspace}, not in {cwd}",
                f"Open {workspace} or a folder in it, or start a daemon of its own there:"
                f" agentd serve --workspace {cwd} --state DIR, and give agentd acp the same"
                " --state.",
            )
        return workspace

    def _reopen(self, params: AcpJson) -> EditorSession:
        name = _require_session_id(params)
        root = self._require_workspace(get_text(params, "cwd"))
        self._daemon.call("GET", f"/api/chat/{name}")
        if known := self._sessions.get(name):
            known.close()
        return self._open(int(name), root)

    def _open(self, chat_id: int, root: str) -> EditorSession:
        elicitation = get_object(self._capabilities, "elicitation")
        session = EditorSession(
            self._daemon,
            self._connection,
            chat_id,
            find_folder(self._daemon, chat_id, root),
            self._read_choices,
            forms="form" in elicitation,
        )
        with self._lock:
            self._sessions[session.id] = session
        return session

    def _find(self, params: AcpJson) -> EditorSession:
        name = get_text(params, "sessionId")
        session = self._sessions.get(name)
        if session is None:
            raise NotFound(f"No session {name[:100]!r} is open", "Load it: session/load.")
        return session

    def _discard(self, session: EditorSession) -> None:
        """Close a session, and delete its chat if it was made for nothing."""
        session.close()
        with self._lock:
            self._sessions.pop(session.id, None)
        if session.id in self._new and session.is_empty:
            self._new.discard(session.id)
            try:
                self._daemon.call("DELETE", f"/api/chats/{session.chat_id}")
            except AgentdError as error:
                log.info("chat %d stays: %s", session.chat_id, error.message)

    def _name_chat(self, session: EditorSession, text: str) -> None:
        line = next((one.strip() for one in text.splitlines() if one.strip()), "")
        if line:
            title = line if len(line) <= _TITLE_LENGTH else f"{line[:_TITLE_LENGTH]}…"
            self._daemon.call("PUT", f"/api/chats/{session.chat_id}", {"title": title})

    def _tell_commands(self, params: AcpJson, result: AcpJson) -> None:
        name = get_text(result, "sessionId") or get_text(params, "sessionId")
        if session := self._sessions.get(name):
            session.commands.tell()

    def _name_servers(self, session: EditorSession, params: AcpJson) -> None:
        """Have the chat use the editor's servers, or tell why it does not."""
        try:
            session.servers.name(read_servers(params))
        except AgentdError as error:
            text = f"{_WITHOUT_SERVERS}: {error.message}"
            log.warning("%s", text)
            if get_object(self._capabilities, "session").get("notices") is not None:
                session.send_update({"sessionUpdate": "notice", "severity": "info", "title": text})


def _find_opened(cwd: str, workspace: str) -> str:
    """Return the editor's folder relative to the workspace; empty if it is the workspace."""
    relative = os.path.relpath(os.path.realpath(cwd), os.path.realpath(workspace))
    return "" if relative == os.curdir else relative


def _is_within(folder: str, workspace: str) -> bool:
    inner, outer = os.path.realpath(folder), os.path.realpath(workspace)
    return inner == outer or inner.startswith(f"{outer.rstrip('/')}/")


def _require_session_id(params: AcpJson) -> str:
    name = get_text(params, "sessionId")
    if not name.isdecimal() or not name.isascii() or len(name) > 16:
        raise NotFound(f"No chat has the id {name[:100]!r}")
    return name
