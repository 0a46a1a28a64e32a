"""A server that speaks Telegram's Bot API on loopback, and can be as bad as the real network."""

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote

TOKEN = "123456789:" + "AAcanaryTOKENcanary_-" + "x9" * 7
"""A token in its usual form; it is nowhere but in ``bots.yml`` and in the addresses called."""
ME = {"id": 123456789, "is_bot": True, "first_name": "Bot", "username": "the_bot"}
USER = 4711
"""Whom the bot obeys."""

Fault = Callable[[str], tuple[int, bytes] | None]


def refuse_call(code: int, description: str, **parameters: Any) -> tuple[int, bytes]:
    """Return an error as Telegram answers it."""
    body = {"ok": False, "error_code": code, "description": description}
    return code, json.dumps(body | ({"parameters": parameters} if parameters else {})).encode()


REVOKED = refuse_call(401, "Unauthorized")
OTHER_POLLER = refuse_call(409, "Conflict: terminated by other getUpdates request")


class BotApi:
    """The server; what was sent to it is in ``sent``, each a dict with its ``method``."""

    def __init__(self, port: int = 0) -> None:
        self.token = TOKEN
        self.fault: Fault = lambda method: None
        """Asked before each call: what to answer instead."""
        self.files: dict[str, bytes] = {}
        self.calls: list[str] = []
        self.sent: list[dict[str, Any]] = []
        self.offsets: list[int] = []
        self._updates: list[dict[str, Any]] = []
        self._next = 1000
        self._changed = threading.Condition()
        self._open = True
        handler = type("Handler", (_Handler,), {"api": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._open = False
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """Its base address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def waiting(self) -> list[int]:
        """The updates that were not acknowledged."""
        with self._changed:
            return [update["update_id"] for update in self._updates]

    def list_texts(self, chat: int = USER) -> list[str]:
        """Return the texts that were sent to a conversation."""
        return [
            one["text"]
            for one in tuple(self.sent)
            if one["method"] == "sendMessage" and one["chat_id"] == str(chat)
        ]

    def list_notes(self) -> list[str]:
        """Return the notes that were shown after pressed buttons."""
        pressed = [one for one in tuple(self.sent) if one["method"] == "answerCallbackQuery"]
        return ["", *(one.get("text", "") for one in pressed)]

    def list_buttons(self) -> dict[str, str]:
        """Return the buttons below the last message that has any: label and data."""
        for one in reversed(self.sent):
            if "reply_markup" in one:
                rows = json.loads(one["reply_markup"])["inline_keyboard"]
                return {key["text"]: key["callback_data"] for row in rows for key in row}
        return {}

    def say(self, text: str = "", user: int = USER, **more: Any) -> int:
        """Somebody writes to the bot; the update's number."""
        message = {
            "message_id": self._next,
            "date": int(time.time()),
            "chat": {"id": user, "type": "private", "first_name": "A"},
            "from": {"id": user, "is_bot": False, "first_name": "A"},
            **({"text": text} if text else {}),
            **more,
        }
        return self.update(message=message)

    def press(self, data: str, user: int = USER) -> int:
        """Somebody presses a button."""
        query = {
            "id": f"press{self._next}",
            "from": {"id": user, "is_bot": False, "first_name": "A"},
            "chat_instance": "1",
            "data": data,
            "message": {
                "message_id": 1,
                "date": int(time.time()),
                "chat": {"id": user, "type": "private", "first_name": "A"},
                "text": "x",
            },
        }
        return self.update(callback_query=query)

    def update(self, **what: Any) -> int:
        """Something happens."""
        with self._changed:
            number = self._next
            self._next += 1
            self._updates.append({"update_id": number, **what})
            self._changed.notify_all()
            return number

    def answer(self, method: str, given: dict[str, str]) -> tuple[int, bytes]:
        """Return the answer to a call."""
        self.calls.append(method)
        if instead := self.fault(method):
            return instead
        result: Any = True
        match method:
            case "getMe":
                result = ME
            case "getUpdates":
                result = self._wait_for_updates(
                    int(given.get("offset", 0)), float(given.get("timeout", 0))
                )
            case "sendMessage":
                self.sent.append({"method": method, **given})
                chat = {"id": int(given["chat_id"]), "type": "private", "first_name": "A"}
                result = {"message_id": len(self.sent), "date": 1, "chat": chat, "text": "x"}
            case "getFile":
                result = {"file_id": given["file_id"], "file_unique_id": "u", "file_size": 1}
                result["file_path"] = given["file_id"]
            case _:
                self.sent.append({"method": method, **given})
        return 200, json.dumps({"ok": True, "result": result}).encode()

    def _wait_for_updates(self, offset: int, timeout: float) -> list[dict[str, Any]]:
        deadline = time.monotonic() + timeout
        with self._changed:
            self.offsets.append(offset)
            while True:
                self._updates = [one for one in self._updates if one["update_id"] >= offset]
                left = deadline - time.monotonic()
                if self._updates or left <= 0 or not self._open:
                    return list(self._updates)
                self._changed.wait(left)


class _Handler(BaseHTTPRequestHandler):
    """A connection."""

    api: BotApi
    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        """Until the other side hangs up, or is killed."""
        with suppress(ConnectionError):
            super().handle()

    def do_POST(self) -> None:
        """Answer a method of the Bot API."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        given = {name: values[-1] for name, values in parse_qs(body).items()}
        _, bot, method = self.path.split("/", 2)
        known = bot == f"bot{self.api.token}"
        self._send(*(self.api.answer(method, given) if known else REVOKED))

    def do_GET(self) -> None:
        """Send a file."""
        *_, bot, name = unquote(self.path).split("/")
        content = self.api.files.get(name) if bot == f"bot{self.api.token}" else None
        self._send(*((200, content) if content is not None else refuse_call(404, "Not Found")))

    def _send(self, status: int, body: bytes) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Write nothing to standard error."""
