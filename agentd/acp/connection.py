"""The connection to an editor: JSON-RPC lines in both directions, a thread for each request."""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, BinaryIO, TypeAlias

from agentd.acp.messages import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    AcpJson,
    choose_code,
    get_object,
    parse_message,
)
from agentd.core.errors import AgentdError

log = logging.getLogger(__name__)

MOST_REQUESTS = 100
"""Requests of the editor that may be under way at the same time."""
LONGEST_LINE = 64 * 1024 * 1024
"""Bytes of a message: pictures come within their prompt."""
LAST_SECONDS = 2.0
"""Seconds for requests under way to be answered when standard input has ended."""

Method: TypeAlias = Callable[[AcpJson], Mapping[str, Any]]
Notified: TypeAlias = Callable[[AcpJson], None]
Answered: TypeAlias = Callable[[AcpJson, Mapping[str, Any]], None]
"""Receives the parameters and the result of a request, once it is answered."""
Prepared: TypeAlias = Callable[[AcpJson], Method]
"""Receives the parameters of a request before the next message is read; returns what answers it."""
OnAnswer: TypeAlias = Callable[[AcpJson], None]
"""Receives the result of a request; it is not called after an error or ``cancel``."""


class EditorConnection:
    """Reads the editor's messages and writes ours, one per line; it may be used by any thread."""

    def __init__(self, output: BinaryIO) -> None:
        self._output = output
        self._write_lock = threading.Lock()
        self._lock = threading.Lock()
        self._last_id = 0
        self._answers: dict[int, OnAnswer] = {}
        self._running: dict[threading.Thread, None] = {}
        self._methods: Mapping[str, Method] = {}
        self._prepared: Mapping[str, Prepared] = {}
        self._notified: Mapping[str, Notified] = {}
        self._answered: Mapping[str, Answered] = {}

    def serve(
        self,
        lines: Iterator[bytes],
        methods: Mapping[str, Method],
        notified: Mapping[str, Notified],
        answered: Mapping[str, Answered] | None = None,
        prepared: Mapping[str, Prepared] | None = None,
    ) -> None:
        """Answer the editor until there are no more lines.

        Notifications are handled, and ``prepared`` requests prepared, in their order, before the
        next message is read; ``answered`` is called after a request was answered.
        """
        self._methods, self._notified, self._answered = methods, notified, answered or {}
        self._prepared = prepared or {}
        for line in lines:
            message = parse_message(line)
            if message is None:
                self._respond_error(None, PARSE_ERROR, "A line must be one JSON-RPC message")
            else:
                self._take(message)

    def join(self) -> None:
        """Give the requests under way a moment to be answered."""
        end = time.monotonic() + LAST_SECONDS
        for thread in list(self._running):
            thread.join(max(end - time.monotonic(), 0))

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification."""
        self._write({"method": method, "params": params})

    def request(self, method: str, params: Mapping[str, Any], on_answer: OnAnswer) -> int:
        """Send a request and return its id; the answer is handled in a thread of its own."""
        with self._lock:
            self._last_id += 1
            number = self._last_id
            self._answers[number] = on_answer
        self._write({"id": number, "method": method, "params": params})
        return number

    def cancel(self, number: int) -> None:
        """Withdraw a request to the editor, if it is not answered yet."""
        if self._answers.pop(number, None):
            self.notify("$/cancel_request", {"requestId": number})

    def _take(self, message: AcpJson) -> None:
        method, number = message.get("method"), message.get("id")
        if isinstance(number, bool | float | list | dict):
            self._respond_error(None, INVALID_REQUEST, "An id is a text or a whole number")
        elif isinstance(method, str) and "id" in message:
            self._begin(method, message)
        elif isinstance(method, str):
            self._handle_notification(method, get_object(message, "params"))
        elif isinstance(number, int) and ("result" in message or "error" in message):
            self._take_answer(number, message)
        else:
            self._respond_error(number, INVALID_REQUEST, "It is no request and no response")

    def _begin(self, method: str, message: AcpJson) -> None:
        number, params = message["id"], get_object(message, "params")
        if method not in self._methods and method not in self._prepared:
            self._respond_error(number, METHOD_NOT_FOUND, f"Unknown method {method[:100]!r}")
        elif len(self._running) >= MOST_REQUESTS:
            self._respond_error(number, INTERNAL_ERROR, "Too many requests at the same time")
        else:
            prepare = self._prepared.get(method)
            run = prepare(params) if prepare else self._methods[method]
            self._start(lambda: self._answer(method, run, number, params))

    def _start(self, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                with suppress(BrokenPipeError):
                    work()
            finally:
                self._running.pop(thread, None)

        thread = threading.Thread(target=run, daemon=True)
        self._running[thread] = None
        thread.start()

    def _answer(self, method: str, run: Method, number: object, params: AcpJson) -> None:
        try:
            result = run(params)
        except AgentdError as error:
            text = "\n".join(filter(None, (error.message, error.details)))
            self._respond_error(number, choose_code(error), text)
        except (ValueError, KeyError, TypeError, AttributeError):
            log.exception("%s failed", method)
            self._respond_error(number, INTERNAL_ERROR, f"{method} failed; see the agent's log")
        else:
            self._write({"id": number, "result": result})
            if follow := self._answered.get(method):
                follow(params, result)

    def _handle_notification(self, method: str, params: AcpJson) -> None:
        if handle := self._notified.get(method):
            try:
                handle(params)
            except AgentdError as error:
                log.warning("%s: %s %s", method, error.message, error.details)

    def _take_answer(self, number: int, message: AcpJson) -> None:
        on_answer = self._answers.pop(number, None)
        if on_answer and "result" in message:
            result = get_object(message, "result")
            self._start(lambda: on_answer(result))

    def _respond_error(self, number: object, code: int, text: str) -> None:
        self._write({"id": number, "error": {"code": code, "message": text}})

    def _write(self, message: Mapping[str, Any]) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False)
        with self._write_lock:
            self._output.write(line.encode(errors="replace") + b"\n")
            self._output.flush()


def read_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the lines that are not blank; one that is too long comes as an invalid one."""
    while line := stream.readline(LONGEST_LINE + 1):
        if len(line) <= LONGEST_LINE or line.endswith(b"\n"):
            if line.strip():
                yield line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(LONGEST_LINE)
        yield b"too long"
