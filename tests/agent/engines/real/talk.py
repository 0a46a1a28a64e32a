"""Talks to a program that speaks JSON lines, and writes down every line in both directions."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Queue
from types import TracebackType
from typing import Any, Self, TypeAlias

Message: TypeAlias = dict[str, Any]

PATIENCE = 60.0
"""Seconds within which a program says what is waited for."""


class Talk:
    """A run of a program, as a context manager; ``lines`` are what was said, in its order.

    ``answer`` is asked what to reply to each request of the program (a ``result``, or None to
    leave it open). ``extra`` is what every message of ours holds, such as ``jsonrpc``.
    """

    def __init__(
        self,
        argv: list[str],
        folder: Path,
        environment: dict[str, str],
        answer: Callable[[Message], Message | None],
        extra: Message,
    ) -> None:
        self.argv = argv
        self.lines: list[Message] = []
        self._answer = answer
        self._extra = extra
        self._heard: Queue[Message | None] = Queue()
        self._last = 0
        self._began = time.monotonic()
        self.program = subprocess.Popen(
            argv,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._readers = [threading.Thread(target=read) for read in (self._read, self._read_errors)]

    def __enter__(self) -> Self:
        for reader in self._readers:
            reader.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Ends the program the gentle way, by the end of its input, and then by force."""
        assert self.program.stdin
        self.program.stdin.close()
        try:
            self.program.wait(PATIENCE / 4)
        except subprocess.TimeoutExpired:
            self._note("killed", True)
            os.killpg(self.program.pid, 9)
        self._note("exit", self.program.wait())
        for reader in self._readers:
            reader.join(PATIENCE)

    def send(self, message: Message) -> None:
        """Send one message to the program."""
        assert self.program.stdin
        message = {**self._extra, **message}
        self._note("sent", message)
        self.program.stdin.write(json.dumps(message).encode() + b"\n")
        self.program.stdin.flush()

    def start(self, method: str, params: Message) -> int:
        """Send a request; its id."""
        self._last += 1
        self.send({"id": self._last, "method": method, "params": params})
        return self._last

    def request(self, method: str, params: Message) -> Message:
        """Send a request and wait for its answer, which holds ``result`` or ``error``."""
        return self.wait_for_answer(self.start(method, params))

    def wait_for_answer(self, request: int) -> Message:
        """Return the answer to a request of ours."""
        return self.wait_for(lambda message: "method" not in message and message["id"] == request)

    def notify(self, method: str, params: Message | None = None) -> None:
        """Send a notification."""
        self.send({"method": method} if params is None else {"method": method, "params": params})

    def wait_for(self, wanted: Callable[[Message], object]) -> Message:
        """Return the next message that is wanted; requests are answered on the way."""
        return next(message for message in self._iterate_messages() if wanted(message))

    def wait_for_method(self, method: str) -> Message:
        """Return the next message of a method."""
        return self.wait_for(lambda message: message.get("method") == method)

    def _iterate_messages(self) -> Iterator[Message]:
        while True:
            try:
                message = self._heard.get(timeout=PATIENCE)
            except Empty:
                raise TimeoutError(f"silence after {json.dumps(self.lines[-1])[:2000]}") from None
            if message is None:
                raise EOFError(f"the program ended: {self.lines[-3:]}")
            if "method" in message and "id" in message:
                self._reply(message)
            yield message

    def _reply(self, request: Message) -> None:
        result = self._answer(request)
        if result is not None:
            self.send({"id": request["id"], "result": result})

    def _read(self) -> None:
        assert self.program.stdout
        for line in self.program.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                self._note("garbage", line.decode(errors="replace"))
                continue
            self._note("received", message)
            self._heard.put(message)
        self._heard.put(None)

    def _read_errors(self) -> None:
        assert self.program.stderr
        for line in self.program.stderr:
            self._note("stderr", line.decode(errors="replace").rstrip("\n"))

    def _note(self, kind: str, value: object) -> None:
        self.lines.append({"at": round(time.monotonic() - self._began, 3), kind: value})
