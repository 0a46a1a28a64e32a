"""Data that owners keep beside the conversations, on a failing disk.

The trash, labels, logins, notified browsers and schedules. Part of ``fault_sweep``: what is there
before, each change, and what must hold at the next start, whether it was acknowledged or not.
"""

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agentd.app import push
from agentd.auth import password, roles
from agentd.auth.session_store import SessionFile
from agentd.auth.user_store import UserFile
from agentd.chats import trash_store
from agentd.chats.labels import store as labels_store
from agentd.chats.labels.model import Label
from agentd.chats.load import load
from agentd.core.errors import AgentdError
from agentd.llm.upstream.client import HttpUpstream
from agentd.llm.upstream.dial import dial_directly
from agentd.schedules import store as schedules_store
from agentd.storage.layout import Layout
from agentd.ui.push.store import PushFile
from tests.crash.callers import Wire

CHANGES = ("delete", "restore", "purge", "label", "relabel", "unlabel", "sign in", "sign out",
           "subscribe", "unsubscribe", "schedule", "unschedule", "run")  # fmt: skip
FINISHED = ("relabel", "unlabel")
"""Changes that a crash may leave half done: asking again does the rest."""
LABELLED, DELETED = 1, 3
"""The chat that bears the label ``old``, and is deleted; the one that is in the trash already."""

_SCHEDULES_BY_HAND = """\
# mine
schedules:
- {name: old, cron: "0 3 * * *", prompt: x, chat: 99}  # its chat is gone, so its runs fail
- {name: other, cron: "0 3 * * *", prompt: x, paused: true}
"""
_WORD = "correct horse battery"
_CHEAP = password.HashCost(14, 8, 1)
_BY_HAND = "# mine\nlabels:\n- name: old  # as ever\n- name: other\n"
_PUSH_KEYS = {
    "p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4"
    "bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
    "auth": "BTBZMqHH6r4Tts7J_aSIgg",
}
_PUSH_SERVICE = "https://push.example.com/"
_SIGN_IN = {"user": "ann", "password": _WORD, "bearer": True}


def settle(layout: Layout) -> None:
    """Before the daemon's first start: labels and somebody who may sign in."""
    os.makedirs(layout.config, mode=0o700)
    Path(layout.labels).write_text(_BY_HAND)
    Path(layout.schedules).write_text(_SCHEDULES_BY_HAND)
    UserFile(layout).add(roles.User("ann", "administrator", password.hash_password(_WORD, _CHEAP)))


def fill(wire: Wire, layout: Layout) -> None:
    """Create a chat with a label, one in the trash, and two logins."""
    wire.call("PUT", f"/api/chats/{LABELLED}/labels", {"labels": ["old"]})
    wire.send("POST", "", {"prompt": f"first of {DELETED}"})
    wire.send("GET", f"/{DELETED}/status?wait=10")
    wire.call("DELETE", f"/api/chats/{DELETED}")
    tokens = [sign_in(wire) for _ in range(3)]
    _build_tokens_path(layout).write_text(json.dumps(tokens))
    subscribe(wire, tokens[1], "old")


def sign_in(wire: Wire) -> str:
    """Return the token of a new login."""
    token: str = wire.call("POST", "/api/session", _SIGN_IN)[1]["token"]
    return token


def subscribe(wire: Wire, token: str, browser: str) -> None:
    """Have a login's browser notified."""
    asked = _build_subscription(browser)
    status, body, _ = wire.call("PUT", "/api/me/push", asked, _authorize(token))
    assert status == 200, body


def list_notified(layout: Layout) -> list[str]:
    """Return the names of the browsers that are notified."""
    subscriptions = PushFile(layout).load().subscriptions
    return [one.endpoint.removeprefix(_PUSH_SERVICE) for one in subscriptions]


def call_no_push_services() -> None:
    """Daemons of this process reach no push service from now on."""
    connect = dial_directly(local=True)
    push.create_push_client = lambda: HttpUpstream(dial=lambda *_: connect("127.0.0.1", 9))


def leave_unfinished(layout: Layout) -> None:
    """Move a deleted chat's folder as an earlier version did."""
    os.makedirs(layout.trash, mode=0o700)
    os.rename(
        layout.get_chat_folder(DELETED),
        os.path.join(layout.trash, f"{DELETED}-2026-01-01T000000.000Z"),
    )


def change(wire: Wire, layout: Layout, what: str, note: Callable[..., None]) -> int:
    """Ask for one change; it is noted when it is acknowledged. The answer's status."""
    status, body = _send_change(wire, layout, what)
    if status < 300:
        token = body["token"] if what == "sign in" else ""
        note(0, "kept", (what, token), {})
    enveloped = isinstance(body, dict) and {"error", "message", "details"} <= set(body)
    if status >= 300 and not (status >= 500 and enveloped):
        note(0, "complain", (what, [f"{status}: {body}"]), {})
    return status


def _send_change(wire: Wire, layout: Layout, what: str) -> tuple[int, Any]:
    if what == "purge":
        return _purge(layout)
    first, second, third = map(_authorize, json.loads(_build_tokens_path(layout).read_text()))
    asked: dict[str, tuple[Any, ...]] = {
        "delete": ("DELETE", f"/api/chats/{LABELLED}"),
        "restore": ("POST", f"/api/chats/{DELETED}/restore"),
        "label": ("POST", "/api/chat-labels", {"name": "new"}),
        "relabel": ("PUT", "/api/chat-labels/old", {"name": "renamed"}),
        "unlabel": ("DELETE", "/api/chat-labels/old"),
        "sign in": ("POST", "/api/session", _SIGN_IN),
        "sign out": ("DELETE", "/api/session", None, first),
        "subscribe": ("PUT", "/api/me/push", _build_subscription("new"), third),
        "unsubscribe": ("DELETE", "/api/me/push", None, second),
        "schedule": ("POST", "/api/schedules", {"name": "new", "cron": "0 3 * * *", "prompt": "x"}),
        "unschedule": ("DELETE", "/api/schedules/old"),
        "run": ("POST", "/api/schedules/old/run"),
    }
    status, body, _ = wire.call(*asked[what])
    return status, body


def _purge(layout: Layout) -> tuple[int, Any]:
    """Purge the deleted chat as the daemon does by itself after thirty days."""
    try:
        asyncio.run(trash_store.TrashFolder(layout).purge(DELETED, 1))
    except AgentdError as error:
        return 503, {"error": "", "message": error.message, "details": error.details}
    return 204, None


def find_violations(layout: Layout, kept: dict[str, str], change: str) -> Iterator[str]:
    """Yield the problems of what owners keep, after this change and a start.

    ``kept`` is what was acknowledged, with the token of a sign-in.
    """
    there = [int(name) for name in os.listdir(layout.chats)]
    gone = {number for number in there if load(layout, number).chat.deleted_at}
    if list(trash_store.find_old_trash(layout)):
        yield "what an earlier version deleted was not taken over"
    if "delete" in kept and LABELLED not in gone:
        yield "the chat that was deleted is not in the trash"
    if "restore" in kept and DELETED in gone:
        yield "the chat that was restored is in the trash"
    if "purge" in kept and DELETED in there:
        yield "the chat that was removed for ever is in the trash"
    yield from _find_label_violations(layout, kept, finished=change in FINISHED)
    yield from _find_login_violations(layout, kept)
    yield from _find_push_violations(layout, kept, change)
    yield from _find_schedule_violations(layout, kept, change)


def _find_label_violations(
    layout: Layout, kept: dict[str, str], *, finished: bool
) -> Iterator[str]:
    listed = list(labels_store.load(layout))
    names = [label.name for label in listed]
    text = Path(layout.labels).read_text()
    if "# mine\n" not in text or Label("other", "") not in listed:
        yield f"what stood in labels.yml is lost: {text!r}"
    if "label" in kept and "new" not in names:
        yield f"the new label is lost: {names}"
    if {"relabel", "unlabel"} & kept.keys() and "old" in names:
        yield f"the label that was changed is as it was: {names}"
    kept_labels = load(layout, LABELLED).chat.labels
    if (finished or {"relabel", "unlabel"} & kept.keys()) and not set(kept_labels) <= set(names):
        yield f"a chat has {kept_labels}, listed are {names}"
    if "relabel" in kept and kept_labels != ("renamed",):
        yield f"the chat has {kept_labels}"


def _find_login_violations(layout: Layout, kept: dict[str, str]) -> Iterator[str]:
    known = {session.sha256 for session in SessionFile(layout).load()}
    first, second, _ = (
        roles.hash_token(token) for token in json.loads(_build_tokens_path(layout).read_text())
    )
    if second not in known:
        yield "a login of before is lost"
    if "sign out" in kept and first in known:
        yield "the login that was ended is good again"
    if "sign in" in kept and roles.hash_token(kept["sign in"]) not in known:
        yield "the login that was begun is lost"


def _find_push_violations(layout: Layout, kept: dict[str, str], change: str) -> Iterator[str]:
    notified = list_notified(layout)
    if change != "unsubscribe" and "old" not in notified:
        yield "a browser that was notified before is lost"
    if "unsubscribe" in kept and "old" in notified:
        yield "the browser that wanted no more notifications gets them"
    if "subscribe" in kept and "new" not in notified:
        yield "the browser that wanted notifications is lost"
    if len(notified) != len(set(notified)):
        yield f"a browser is notified twice: {notified}"


def _find_schedule_violations(layout: Layout, kept: dict[str, str], change: str) -> Iterator[str]:
    names = [one.name for one in schedules_store.load(layout)]
    text = Path(layout.schedules).read_text()
    if "# mine\n" not in text or "other" not in names:
        yield f"what stood in schedules.yml is lost: {text!r}"
    if "schedule" in kept and "new" not in names:
        yield f"the new schedule is lost: {names}"
    if change != "unschedule" and "old" not in names:
        yield f"a schedule of before is lost: {names}"
    if "unschedule" in kept and "old" in names:
        yield f"the schedule that was removed is there: {names}"
    known = schedules_store.ProgressFile(layout).load().get("old")
    states = [run.state for run in known.runs] if known else []
    if states != ["failed"] and ("run" in kept or states):
        yield f"the run that began by hand is lost, or there twice: {states}"


def _build_subscription(browser: str) -> dict[str, Any]:
    return {"endpoint": f"{_PUSH_SERVICE}{browser}", "keys": _PUSH_KEYS}


def _authorize(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _build_tokens_path(layout: Layout) -> Path:
    return Path(layout.state).parent / "tokens.json"
