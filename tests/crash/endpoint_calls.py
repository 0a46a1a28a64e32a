"""A valid call of every route that changes something, and the state in which it is valid.

``fill`` makes that state with a running daemon and returns the names and ids that the calls need.
"""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from agentd.agent.workspace_decisions import (
    WorkspaceDecision,
    open_hook_decisions,
    open_server_decisions,
)
from agentd.auth import password, roles
from agentd.auth.user_store import UserFile
from agentd.storage.layout import Layout
from tests.crash.callers import Wire
from tests.crash.keys import KEY, MANAGEMENT_KEY

WORD = "correct horse battery"
CHAT, OTHER, TRASHED, EMPTY = 1, 2, 3, 4
"""The chat that is changed, one that must go on, one in the trash, and one whose prompts may go."""

DECIDED = "ab" * 32
"""The digest of an MCP server, and of hooks, that were decided about."""

_FORM = "multipart/form-data; boundary=x"
_UPLOAD = (
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="new.txt"\r\n'
    b"\r\nhello\r\n--x--\r\n"
)
_PUSH_KEYS = {
    "p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4"
    "bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
    "auth": "BTBZMqHH6r4Tts7J_aSIgg",
}
_NOBODY = "http://127.0.0.1:9"
_LATER = "2099-01-01T00:00:00Z"
_RAISE = {"limits": {"day": 50}, "until": _LATER}


class EndpointCall(NamedTuple):
    """A call: its path with names of ``fill``'s result in braces, and its body."""

    path: str
    body: Any = None
    media_type: str = "application/json"
    login: str = "token"
    """The name of the login's token."""


def _manage(kind: str, name: str, off: str, made: dict[str, Any], changed: dict[str, Any]) -> Any:
    """Return the calls that every resource of the gateway has."""
    path, one = f"/api/agent/{kind}", "{id}" if "{" in name else "{name}"
    if kind == "secret-rules":
        one = "{id}"
    return {
        f"POST {path}": EndpointCall(path, made),
        f"PATCH {path}/{one}": EndpointCall(f"{path}/{name}", changed),
        f"DELETE {path}/{one}": EndpointCall(f"{path}/{off}"),
        f"POST {path}/{one}/enable": EndpointCall(f"{path}/{off}/enable"),
        f"POST {path}/{one}/disable": EndpointCall(f"{path}/{name}/disable"),
    }


_LITELLM = (
    "model_list: [{model_name: m, litellm_params: {model: openai/m, api_base:"
    f" '{_NOBODY}/v1', api_key: x}}}}]"
)


def _channel(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "dialects": ["openai-chat"],
        "url": f"{_NOBODY}/v1",
        "key": "x",
        "local": True,
    }


def _model(name: str, channel: str = "one") -> dict[str, Any]:
    return {"name": name, "routes": [{"channel": channel}], "prices": {"input": 1, "output": 2}}


def _target(name: str) -> dict[str, Any]:
    return {"name": name, "kind": "text", "url": f"{_NOBODY}/{name}", "local": True}


def _rule(name: str) -> dict[str, Any]:
    return {"id": name, "regex": f"{name}_([a-z0-9]{{20}})", "group": 1, "keywords": [f"{name}_"]}


_SCHEDULE = {"name": "weekly", "cron": "0 3 * * 1", "prompt": "test it"}
_DOCS = {"name": "docs", "url": f"{_NOBODY}/mcp", "enabled": False}
_QUEUE = f"/api/MessageQueue/{CHAT}"

CALLS: dict[str, EndpointCall] = {
    "POST /api/remote/chats": EndpointCall(
        "/api/remote/chats", {"prompt": "new", "notBefore": _LATER}
    ),
    "POST /api/remote/chats/{chatId}/queue": EndpointCall(
        f"/api/remote/chats/{CHAT}/queue", {"prompt": "new"}
    ),
    "PUT /api/remote/chats/{chatId}/queue": EndpointCall(
        f"/api/remote/chats/{CHAT}/queue", {"prompts": [{"prompt": "only", "isPaused": True}]}
    ),
    "PUT /api/remote/chats/{chatId}/queue/{promptId}": EndpointCall(
        f"/api/remote/chats/{CHAT}/queue/{{prompt}}", {"prompt": "rewritten"}
    ),
    "DELETE /api/remote/chats/{chatId}/queue/{promptId}": EndpointCall(
        f"/api/remote/chats/{CHAT}/queue/{{prompt}}"
    ),
    "PUT /api/chat/{chatId}/settings": EndpointCall(
        f"/api/chat/{CHAT}/settings", {"systemPrompt": "be brief"}
    ),
    "POST /api/MessageQueue/{chatId}/hold": EndpointCall(f"{_QUEUE}/hold", {"reason": "wait"}),
    "POST /api/MessageQueue/{chatId}/release": EndpointCall(f"/api/MessageQueue/{EMPTY}/release"),
    "POST /api/MessageQueue/{chatId}/pause": EndpointCall(f"/api/MessageQueue/{EMPTY}/pause"),
    "POST /api/MessageQueue/{chatId}/resume": EndpointCall(f"{_QUEUE}/resume"),
    "PUT /api/MessageQueue/{chatId}/{promptId}": EndpointCall(
        f"{_QUEUE}/{{prompt}}", {"prompt": "rewritten"}
    ),
    "DELETE /api/MessageQueue/{chatId}/{promptId}": EndpointCall(f"{_QUEUE}/{{prompt}}"),
    "POST /api/MessageQueue/{chatId}/{promptId}/pause": EndpointCall(
        f"/api/MessageQueue/{EMPTY}/{{held}}/pause"
    ),
    "POST /api/MessageQueue/{chatId}/{promptId}/resume": EndpointCall(
        f"{_QUEUE}/{{prompt}}/resume"
    ),
    "POST /api/MessageQueue/{chatId}/{promptId}/move": EndpointCall(
        f"{_QUEUE}/{{prompt}}/move", {"position": 2}
    ),
    # Notifications of a login end with it at once, whatever the disk says: this one has none.
    "DELETE /api/session": EndpointCall("/api/session", login="other_token"),
    "POST /api/users": EndpointCall(
        "/api/users", {"name": "new", "role": "viewer", "password": "a long enough word"}
    ),
    "PUT /api/users/{name}": EndpointCall("/api/users/vera", {"role": "manager"}),
    "DELETE /api/users/{name}": EndpointCall("/api/users/vera"),
    "DELETE /api/users/{name}/sessions": EndpointCall("/api/users/vera/sessions"),
    "PUT /api/session/password": EndpointCall(
        "/api/session/password", {"password": WORD, "newPassword": "another long word"}
    ),
    "DELETE /api/sessions/{sessionId}": EndpointCall("/api/sessions/{session}"),
    "DELETE /api/users/{name}/sessions/{sessionId}": EndpointCall(
        "/api/users/vera/sessions/{vera_session}"
    ),
    "POST /api/settings/set": EndpointCall("/api/settings/set", {"max_parallel_turns": 3}),
    "PUT /api/skills-settings": EndpointCall("/api/skills-settings", {"default": "review"}),
    "POST /api/skills/select": EndpointCall(
        "/api/skills/select", {"skill": "review", "chatId": CHAT}
    ),
    "POST /api/models/select": EndpointCall(
        "/api/models/select", {"model": "quick", "chatId": CHAT}
    ),
    "POST /api/models": EndpointCall("/api/models", {"name": "new", "engine": "offline"}),
    "PUT /api/models/{name}": EndpointCall(
        "/api/models/quick", {"name": "quicker", "engine": "offline"}
    ),
    "DELETE /api/models/{name}": EndpointCall("/api/models/quick"),
    "POST /api/autofix/toggle/{name}": EndpointCall(
        "/api/autofix/toggle/b", {"on": True, "chatId": CHAT}
    ),
    "POST /api/autofix/toggle": EndpointCall("/api/autofix/toggle", {"on": True}),
    "POST /api/files": EndpointCall("/api/files", _UPLOAD, _FORM),
    "DELETE /api/files/{name}": EndpointCall("/api/files/old.txt"),
    "POST /api/bots": EndpointCall(
        "/api/bots", {"id": "new", "token": "124:" + "B" * 35, "enabled": False}
    ),
    "PUT /api/bots/{botId}": EndpointCall("/api/bots/helper", {"title": "Renamed"}),
    "DELETE /api/bots/{botId}": EndpointCall("/api/bots/helper"),
    "POST /api/mcp-servers": EndpointCall("/api/mcp-servers", {**_DOCS, "name": "new"}),
    "PUT /api/mcp-servers/{name}": EndpointCall(
        "/api/mcp-servers/docs", {**_DOCS, "url": f"{_NOBODY}/other"}
    ),
    "DELETE /api/mcp-servers/{name}": EndpointCall("/api/mcp-servers/docs"),
    "DELETE /api/mcp-servers/decisions/{id}": EndpointCall(
        f"/api/mcp-servers/decisions/{DECIDED}"
    ),
    "DELETE /api/hooks/decisions/{id}": EndpointCall(f"/api/hooks/decisions/{DECIDED}"),
    "POST /api/chats": EndpointCall("/api/chats", {"title": "new"}),
    "PUT /api/chats/{chatId}": EndpointCall(f"/api/chats/{CHAT}", {"title": "renamed"}),
    "PUT /api/chats/{chatId}/labels": EndpointCall(f"/api/chats/{CHAT}/labels", {"labels": []}),
    "POST /api/chats/{chatId}/duplicate": EndpointCall(
        f"/api/chats/{CHAT}/duplicate", {"history": True}
    ),
    "DELETE /api/chats/{chatId}": EndpointCall(f"/api/chats/{CHAT}"),
    "DELETE /api/chats/trash/{chatId}": EndpointCall(f"/api/chats/trash/{TRASHED}"),
    "POST /api/chats/{chatId}/restore": EndpointCall(f"/api/chats/{TRASHED}/restore"),
    "POST /api/chat/{chatId}/send": EndpointCall(f"/api/chat/{CHAT}/send", {"prompt": "new"}),
    "POST /api/chat-labels": EndpointCall("/api/chat-labels", {"name": "new"}),
    "POST /api/chat-labels/{name}/assign": EndpointCall(
        "/api/chat-labels/other/assign", {"chatIds": [CHAT]}
    ),
    "POST /api/chat-labels/{name}/unassign": EndpointCall(
        "/api/chat-labels/old/unassign", {"chatIds": [CHAT]}
    ),
    "POST /api/schedules": EndpointCall("/api/schedules", _SCHEDULE),
    "PUT /api/schedules/{name}": EndpointCall(
        "/api/schedules/nightly", {**_SCHEDULE, "name": "nightly", "cron": "0 4 * * 1"}
    ),
    "DELETE /api/schedules/{name}": EndpointCall("/api/schedules/nightly"),
    "POST /api/schedules/{name}/pause": EndpointCall("/api/schedules/nightly/pause"),
    "POST /api/schedules/{name}/resume": EndpointCall("/api/schedules/paused/resume"),
    "POST /api/keys": EndpointCall("/api/keys", {"name": "new"}),
    "PUT /api/me": EndpointCall("/api/me", {"seen": {"1": 2}, "look": {"theme": "dark"}}),
    "DELETE /api/me/push": EndpointCall("/api/me/push"),
    **_manage("channels", "one", "off", _channel("new"), {"timeout": 120}),
    **_manage("models", "large", "off", _model("new"), {"context": 400000}),
    **_manage("keys", "{key}", "{off_key}", {"name": "new"}, {"limits": {"day": 10}}),
    **_manage(
        "management-keys", "monitor", "off", {"name": "new", "scope": "read"}, {"scope": "keys"}
    ),
    **_manage(
        "budgets", "team", "off", {"name": "new", "tag": "new", "limits": {"day": 1}},
        {"limits": {"day": 2}},
    ),
    **_manage("secret-rules", "ticket", "off", _rule("new"), {"mode": "block"}),
    **_manage(
        "alert-targets", "desk", "off", _target("new"), {"minInterval": 300},
    ),
    "POST /api/agent/channels/{name}/copy": EndpointCall(
        "/api/agent/channels/one/copy", {"name": "copied"}
    ),
    "POST /api/agent/models/{name}/copy": EndpointCall(
        "/api/agent/models/large/copy", {"name": "copied"}
    ),
    "POST /api/agent/import": EndpointCall(
        "/api/agent/import", {"channels": [_channel("moved")], "models": [_model("m", "moved")]}
    ),
    "POST /api/agent/import/file": EndpointCall("/api/agent/import/file", {"text": _LITELLM}),
    **{
        f"POST /api/agent/{kind}/batch": EndpointCall(
            f"/api/agent/{kind}/batch", {"action": "disable", "names": [name]}
        )
        for kind, name in (("channels", "one"), ("models", "large"), ("keys", "caller"))
    },
    "POST /api/agent/keys/{id}/reissue": EndpointCall(
        "/api/agent/keys/{key}/reissue", {"grace": 3600}
    ),
    "POST /api/agent/keys/{id}/raise": EndpointCall("/api/agent/keys/{key}/raise", _RAISE),
    "DELETE /api/agent/keys/{id}/raise": EndpointCall("/api/agent/keys/{off_key}/raise"),
    "POST /api/agent/budgets/{name}/raise": EndpointCall("/api/agent/budgets/team/raise", _RAISE),
    "DELETE /api/agent/budgets/{name}/raise": EndpointCall("/api/agent/budgets/off/raise"),
    "PATCH /api/agent/settings": EndpointCall("/api/agent/settings", {"time_zone": "Asia/Tokyo"}),
    "POST /api/agent/changes/{number}/undo": EndpointCall("/api/agent/changes/{change}/undo"),
    "POST /api/agent/channels/{name}/models": EndpointCall(
        "/api/agent/channels/one/models", {"models": [{"model": "gpt", "name": "offered"}]}
    ),
}  # fmt: skip
"""By method and path of the route."""

_TURN = "it needs a turn under way; tests/agent has it killed at every step"
_GIT = "what it changes is git's: the repository of the workspace"
_READS = "it changes nothing"
_ASKS = "it asks a supplier or a program, and changes nothing itself"
_JOB = "it starts or ends a program; its record is the job's own file"
_MODEL = "a call of a model: test_model_calls.py and test_ledger.py"
_LIVE = "a live connection, which nothing outlasts"

NOT_CALLED: dict[str, str] = {
    "POST /api/chat/{chatId}/stop": _TURN,
    "POST /api/chat/{chatId}/approvals/{approvalId}": _TURN,
    "DELETE /api/chat/{chatId}/approvals/{approvalId}": _TURN,
    "POST /api/setup/try": _ASKS,
    "POST /api/setup/use": "it tries a program or supplier first, then sets as /api/settings/set",
    "POST /api/build/trigger/{name}": _JOB,
    "POST /api/build/stop/{name}": _JOB,
    "POST /api/deploy/start/{name}": _JOB,
    "POST /api/deploy/stop/{name}": _JOB,
    "POST /api/deploy/restart/{name}": _JOB,
    "POST /api/speechrecognition/transcribe": _READS,
    "POST /api/git/stage": _GIT,
    "POST /api/git/unstage": _GIT,
    "POST /api/git/commit": _GIT,
    "POST /api/chat/{chatId}/worktree/merge": _GIT,
    "POST /api/chat/{chatId}/worktree/rebase": _GIT,
    "POST /api/chat/{chatId}/worktree/keep": _GIT,
    "POST /api/chat/{chatId}/worktree/drop": _GIT,
    "POST /api/bots/{botId}/check": _ASKS,
    "POST /api/mcp-servers/{name}/check": _ASKS,
    "PUT /api/chat-labels/{name}": "it may be half done: keeping.py has its rule",
    "DELETE /api/chat-labels/{name}": "it may be half done: keeping.py has its rule",
    "POST /api/keys/{name}/regenerate": "lists do not show it: renew of fault_sweep.py",
    "POST /api/session": "sessions have ids by chance: sign in of fault_sweep.py",
    "PATCH /api/agent/settings/daemon": "it writes as POST /api/settings/set",
    "PUT /api/me/push": "lists do not show it: subscribe of fault_sweep.py",
    "POST /api/files/clipboard": "the file is named by the second; else it is as POST /api/files",
    "DELETE /api/keys/{name}": "it is revoked before it is removed: revoke of fault_sweep.py",
    "POST /api/agent/channels/{name}/balance": _ASKS,
    "PUT /api/chat/{chatId}/mcp-servers": "they are only in memory",
    "POST /api/chats/{chatId}/processes/{processId}/stop": _JOB,
    "POST /api/remote/chats/{chatId}/processes/{processId}/stop": _JOB,
    "POST /api/schedules/{name}/run": "its turn goes on after the answer: tests/schedules",
    "POST /api/agent/channels/{name}/check": _ASKS,
    "POST /api/agent/models/{name}/check": _ASKS,
    "POST /api/agent/secret-rules/test": _READS,
    "POST /api/agent/alert-targets/{name}/test": _ASKS,
    "POST /api/agent/channels/preview": _READS,
    "POST /api/agent/prices/refresh": "it downloads the catalogue, which is rebuilt",
    "POST /api/agent/models/{name}/prices": "it needs the catalogue; it changes as PATCH does",
    "POST /api/agent/export/backfill": "it needs an analytics database: tests/gateway/export",
    "POST /api/agent/export/check": _ASKS,
    "POST /api/agent/requests/reprice": "booking.py reprices under kills and a full disk",
    "PUT /api/agent/licence": "it needs a signed licence: tests/gateway/licence",
    "POST /api/agent/session": "a login code, which is only in memory",
    "POST /api/render": _READS,
    "POST /api/qr": _READS,
    "POST /mcp": "its tools call the routes here",
    "DELETE /mcp": _LIVE,
    **{
        f"POST {path}": _MODEL
        for path in (
            "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/messages",
            "/v1/responses", "/v1/messages/count_tokens", "/v1/models/{name}",
            "/v1beta/models/{name}",
        )
    },
    **dict.fromkeys(
        ("POST /liveChatHub", "DELETE /liveChatHub", "POST /liveChatHub/negotiate"), _LIVE
    ),
}  # fmt: skip
"""Routes without a call here, and why."""


def settle(layout: Layout) -> None:
    """Write what is there before the daemon's first start: people, labels, a skill and a build."""
    os.makedirs(layout.config, mode=0o700)
    hashed = password.hash_password(WORD, password.HashCost(14, 8, 1))
    for name, role in (("ann", "administrator"), ("vera", "viewer")):
        UserFile(layout).add(roles.User(name, role, hashed))  # type: ignore[arg-type]
    Path(layout.labels).write_text("labels:\n- name: old\n- name: other\n")
    skill = Path(layout.skills, "review")
    skill.mkdir(parents=True)
    Path(skill, "SKILL.md").write_text("---\nname: review\ndescription: Reviews.\n---\nLook.\n")
    Path(layout.builds_settings).write_text("builds:\n  b:\n    command: ['true']\n")
    for file in (open_server_decisions(layout), open_hook_decisions(layout)):
        for digest in (DECIDED, "cd" * 32):
            file.keep(WorkspaceDecision("lint", digest, True, "2026-01-01T00:00:00.000Z"))


def fill(url: str) -> dict[str, str]:
    """Make what the calls change."""
    wire, values = Wire(url), dict[str, str]()
    for name, user in (("token", "ann"), ("vera_token", "vera"), ("other_token", "ann")):
        wish = {"user": user, "password": WORD, "bearer": True}
        values[name] = wire.call("POST", "/api/session", wish)[1]["token"]

    def make(method: str, path: str, body: Any = None) -> Any:
        status, answer = call(wire, method, EndpointCall(path, body), values)
        assert status < 300, (method, path, answer)
        return answer

    for number in (CHAT, OTHER, TRASHED, EMPTY):
        make("POST", "/api/chats", {"prompt": f"first of {number}"})
        wire.send("GET", f"/{number}/status?wait=10")
    for number in (CHAT, EMPTY):
        make("POST", f"/api/MessageQueue/{number}/hold", {"reason": "for the test"})
        how = {"isPaused": True} if number == CHAT else {"notBefore": _LATER}
        rows = [{"prompt": f"{number}-{n}", **how} for n in range(3)]
        queue = make("PUT", f"/api/remote/chats/{number}/queue", {"prompts": rows})
        values["prompt" if number == CHAT else "held"] = str(queue["prompts"][0]["id"])
    make("DELETE", f"/api/chats/{TRASHED}")
    make("PUT", f"/api/chats/{CHAT}/labels", {"labels": ["old"]})
    for sessions, name in (
        ("/api/sessions", "session"),
        ("/api/users/vera/sessions", "vera_session"),
    ):
        listed = make("GET", sessions)["sessions"]
        values[name] = next(one["id"] for one in listed if not one.get("current"))
    make("POST", "/api/models", {"name": "quick", "engine": "offline"})
    call(wire, "POST", EndpointCall("/api/files", _UPLOAD.replace(b"new", b"old"), _FORM), values)
    for number, name in ((123, "helper"), (125, "other")):
        make("POST", "/api/bots", {"id": name, "token": f"{number}:{'A' * 35}", "enabled": False})
    make("POST", "/api/mcp-servers", _DOCS)
    for name in ("nightly", "paused"):
        make("POST", "/api/schedules", {**_SCHEDULE, "name": name})
    make("POST", "/api/schedules/paused/pause")
    make("POST", "/api/keys", {"name": "laptop"})
    subscription = {"endpoint": "https://push.example.com/old", "keys": _PUSH_KEYS}
    make("PUT", "/api/me/push", subscription)
    _fill_gateway(make, values)
    return values


def _fill_gateway(make: Any, values: dict[str, str]) -> None:
    for name in ("one", "off"):
        make("POST", "/api/agent/channels", _channel(name))
    for name in ("large", "off"):
        make("POST", "/api/agent/models", _model(name))
    for name, kept in (("caller", "key"), ("off", "off_key")):
        made = make("POST", "/api/agent/keys", {"name": name, "limits": {"day": 5}})
        values[kept] = made["id"]
    for name in ("monitor", "off"):
        make("POST", "/api/agent/management-keys", {"name": name, "scope": "read"})
    for name in ("team", "off"):
        make("POST", "/api/agent/budgets", {"name": name, "tag": name, "limits": {"day": 1}})
    for name in ("ticket", "off"):
        make("POST", "/api/agent/secret-rules", _rule(name))
    for name in ("desk", "off"):
        make("POST", "/api/agent/alert-targets", _target(name))
    make("POST", f"/api/agent/keys/{values['off_key']}/raise", _RAISE)
    make("POST", "/api/agent/budgets/off/raise", _RAISE)
    kinds = ("channels", "models", "management-keys", "budgets", "secret-rules", "alert-targets")
    for kind in kinds:
        make("POST", f"/api/agent/{kind}/off/disable")
    make("POST", f"/api/agent/keys/{values['off_key']}/disable")
    values["change"] = str(make("GET", "/api/agent/changes")["items"][0]["number"])


def call(wire: Wire, method: str, wish: EndpointCall, values: dict[str, str]) -> tuple[int, Any]:
    """Send a call with the credentials of its route; return the status and the JSON body."""
    path = wish.path.format_map(values)
    if path.startswith("/api/agent"):
        login = {"X-API-Key": MANAGEMENT_KEY}
    elif path.startswith("/api/remote"):
        login = {"X-API-Key": KEY}
    else:
        login = {"Authorization": f"Bearer {values[wish.login]}"}
    body = wish.body
    if not isinstance(body, bytes):
        body = b"" if body is None else json.dumps(body).encode()
    return wire.call_raw(method, path, body, {**login, "Content-Type": wish.media_type})
