"""The load of the soak: each kind of work takes steps that leave the daemon as it was before."""

import asyncio
import contextlib
import http.client
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from tests.crash.callers import Wire
from tests.crash.keys import KEY, MANAGEMENT_KEY

PATIENCE = 100.0
_FORM = "multipart/form-data; boundary=x"
_HEADERS = {"X-API-Key": KEY}
_MANAGER = {"X-API-Key": MANAGEMENT_KEY}
_ACCESS = "/api/agent/keys"


class SoakLoad:
    """What every kind of work needs of the daemon, and counts of what was done."""

    def __init__(self, url: str, model_key: str) -> None:
        self.url = url
        self.work: dict[str, Callable[[int], None]] = {
            "chats": self.use_chat,
            "stream": self.follow_stream,
            "hub": self.follow_hub,
            "calls": self.call_model,
            "streams": self.stream_model,
            "left streams": self.leave_model,
            "access keys": self.change_access_keys,
            "named keys": self.change_named_keys,
            "uploads": self.upload,
            "analytics": self.read_analytics,
            "output": self.read_output,
        }
        """One step of each, by its name; the number is new for each step."""
        self._model_key = model_key

    def use_chat(self, number: int) -> None:
        """Create a chat, fill, change and read its queue, and remove it for ever."""
        with contextlib.closing(Wire(self.url)) as wire:
            chat = self._expect(wire, "POST", "/api/remote/chats", {"prompt": f"soak {number}"})
            path = f"/api/remote/chats/{chat['chatId']}"
            for prompt in range(3):
                self._expect(wire, "POST", f"{path}/queue", {"prompt": f"{prompt} " + "x" * 500})
            self._expect(wire, "GET", f"{path}/status?wait=10")
            rows = [{"prompt": "paused", "isPaused": True}] * 5
            self._expect(wire, "PUT", f"{path}/queue", {"prompts": rows})
            self._expect(wire, "GET", f"{path}/messages")
            own = f"/api/chats/{chat['chatId']}"
            self._expect(wire, "PUT", f"{own}/labels", {"labels": ["soak"]})
            self._expect(wire, "POST", f"/api/chat/{chat['chatId']}/stop", {}, (200, 409))
            self._expect(wire, "DELETE", own)
            self._expect(wire, "DELETE", f"/api/chats/trash/{chat['chatId']}")

    def follow_stream(self, number: int) -> None:
        """Follow the live events for a while, then leave in the middle."""
        address = urlsplit(self.url)
        line = http.client.HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE)
        with contextlib.closing(line), contextlib.closing(Wire(self.url)) as wire:
            line.request("GET", "/api/events?since=0", headers=_HEADERS)
            answer = line.getresponse()
            self._come_and_go(wire, f"stream {number}")
            for _ in range(20):
                answer.readline()
            answer.close()

    def follow_hub(self, number: int) -> None:
        """Follow the hub until it told what was changed meanwhile."""
        asyncio.run(self._follow_hub(number))

    async def _follow_hub(self, number: int) -> None:
        address = HTTPRequest(f"ws{self.url[4:]}/liveChatHub", headers=_HEADERS)
        socket = await websocket_connect(address, max_message_size=2**26)
        call = {"type": 1, "invocationId": "1", "target": "Subscribe", "arguments": ["all"]}
        for message in ({"protocol": "json", "version": 1}, call):
            await socket.write_message(json.dumps(message) + "\x1e")
        changed = False
        while message := await asyncio.wait_for(socket.read_message(), PATIENCE):
            if not changed and '{"type":3,' in message:
                changed = True
                await asyncio.to_thread(self._make_events, f"hub {number}")
            if f'"hub {number}"' in message:
                socket.close()
                while await socket.read_message() is not None:
                    pass
                return
        raise AssertionError("the hub was closed")

    def _make_events(self, title: str) -> None:
        with contextlib.closing(Wire(self.url)) as wire:
            self._come_and_go(wire, title)

    def _come_and_go(self, wire: Wire, title: str) -> None:
        chat = self._expect(wire, "POST", "/api/remote/chats", {"title": title})["chatId"]
        self._expect(wire, "DELETE", f"/api/chats/{chat}")
        self._expect(wire, "DELETE", f"/api/chats/trash/{chat}")

    def call_model(self, number: int) -> None:
        """Have a model answer a call."""
        assert b"usage" in self._ask_model(number, stream=False)

    def stream_model(self, number: int) -> None:
        """Have a model stream an answer."""
        assert b"[DONE]" in self._ask_model(number, stream=True)

    def leave_model(self, number: int) -> None:
        """Leave a stream after its first bytes."""
        self._ask_model(number, stream=True, most=20)

    def _ask_model(self, number: int, *, stream: bool, most: int | None = None) -> bytes:
        address = urlsplit(self.url)
        line = http.client.HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE)
        said = [{"role": "user", "content": f"{number % 50 + 1} so"}]
        body = json.dumps({"model": "by-chat", "messages": said, "stream": stream})
        with contextlib.closing(line):
            headers = {"Authorization": f"Bearer {self._model_key}"}
            line.request("POST", "/v1/chat/completions", body, headers)
            with line.getresponse() as answer:
                content = answer.read(most)
            assert answer.status == 200, content
            return content

    def change_access_keys(self, number: int) -> None:
        """Make, change and disable a key of the gateway, and delete it."""
        with contextlib.closing(Wire(self.url)) as wire:
            wish = {"name": f"soak {number}", "limits": {"day": 5}}
            key = self._expect(wire, "POST", _ACCESS, wish, login=_MANAGER)["id"]
            change = {"limits": {"day": 6}}
            self._expect(wire, "PATCH", f"{_ACCESS}/{key}", change, login=_MANAGER)
            self._expect(wire, "POST", f"{_ACCESS}/{key}/disable", login=_MANAGER)
            self._expect(wire, "DELETE", f"{_ACCESS}/{key}", login=_MANAGER)

    def change_named_keys(self, number: int) -> None:
        """Make a key of the daemon, and revoke it."""
        with contextlib.closing(Wire(self.url)) as wire:
            self._expect(wire, "POST", "/api/keys", {"name": f"soak-{number}"})
            self._expect(wire, "DELETE", f"/api/keys/soak-{number}")

    def upload(self, number: int) -> None:
        """Upload a file of 64 KiB, list the files, and delete it."""
        name = f"soak-{number}.txt"
        head = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
        body = head.encode() + b"x" * 65536 + b"\r\n--x--\r\n"
        with contextlib.closing(Wire(self.url)) as wire:
            headers = {**_HEADERS, "Content-Type": _FORM}
            status, told = wire.call_raw("POST", "/api/files", body, headers)
            assert status < 300, told
            self._expect(wire, "GET", "/api/files")
            self._expect(wire, "DELETE", f"/api/files/{name}")

    def read_analytics(self, _: int) -> None:
        """Read the analytics and the gateway's reports."""
        with contextlib.closing(Wire(self.url)) as wire:
            self._expect(wire, "GET", "/api/analytics")
            self._expect(wire, "GET", "/api/agent/reports/by-key", login=_MANAGER)

    def read_output(self, _: int) -> None:
        """Read the output of the program that is deployed."""
        address = urlsplit(self.url)
        line = http.client.HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE)
        with contextlib.closing(line):
            line.request("GET", "/api/deploy/output/talker", headers=_HEADERS)
            with line.getresponse() as answer:
                assert b"talks" in answer.read()
            assert answer.status == 200

    @staticmethod
    def _expect(
        wire: Wire,
        method: str,
        path: str,
        body: object = None,
        statuses: tuple[int, ...] = (200, 201, 202, 204),
        login: dict[str, str] | None = None,
    ) -> Any:
        status, answer, _ = wire.call(method, path, body, login)
        assert status in statuses, (method, path, status, answer)
        return answer
