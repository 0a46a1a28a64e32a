"""A request as the scripted supplier received it, in any dialect."""

import json
import re
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any
from urllib.parse import unquote

from msgspec import Struct, field


class Result(Struct, frozen=True):
    """The result of a tool; ``call`` is the id of the call."""

    call: str
    text: str


class Request(Struct, frozen=True):
    """A client's request; ``body`` is the parsed JSON, or None without one.

    ``gone`` is done once the client has closed the connection before the answer was whole.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    gone: Future[None] = field(default_factory=Future)

    @property
    def model(self) -> str:
        """The model asked for."""
        named = re.search(r"/models/([^/:]+):", self.path)  # Gemini's address
        return unquote(named[1]) if named else str(self._get("model") or "")

    @property
    def streaming(self) -> bool:
        """True if the answer is to come as server-sent events."""
        return bool(self._get("stream")) or self.path.endswith(":streamGenerateContent")

    @property
    def tools(self) -> dict[str, str]:
        """The tools on offer: the type of each by its name."""
        offered = [
            one
            for tool in self._get("tools") or []
            for one in tool.get("functionDeclarations", [tool])
        ]
        flat = [(tool, tool.get("function") or tool.get("custom") or tool) for tool in offered]
        return {result.get("name", ""): tool.get("type", "function") for tool, result in flat}

    @property
    def turns(self) -> list[dict[str, Any]]:
        """The conversation: messages, the items of the Responses dialect, or Gemini's contents."""
        result = (self._get(name) for name in ("messages", "contents", "input"))
        given = next((found for found in result if found is not None), None)
        if isinstance(given, str):
            return [{"role": "user", "content": given}]
        return list(given or [])

    @property
    def prompt(self) -> str:
        """The text of the user's last message that has any."""
        said = (_join_text(_get_content(turn)) for turn in reversed(self.turns) if _is_user(turn))
        return next((text for text in said if text), "")

    @property
    def results(self) -> list[Result]:
        """The tool results at the end of the conversation, from which the model continues."""
        last: list[Result] = []
        for turn in reversed(self.turns):
            found = list(_iter_results(turn))
            if not found:
                break
            last[:0] = found
        return last

    def mark_gone(self) -> None:
        """Note that the client has closed the connection."""
        if not self.gone.done():
            self.gone.set_result(None)

    def _get(self, key: str) -> Any:
        return self.body.get(key) if isinstance(self.body, dict) else None


def _is_user(turn: dict[str, Any]) -> bool:
    return turn.get("role") == "user" or (turn.get("role") == "tool" and "parts" in turn)


def _iter_results(turn: dict[str, Any]) -> Iterator[Result]:
    if turn.get("role") == "tool" and "parts" not in turn:
        yield Result(turn.get("tool_call_id", ""), _join_text(turn.get("content")))
    elif str(turn.get("type", "")).endswith("_call_output"):
        yield Result(turn.get("call_id", ""), _join_text(turn.get("output")))
    elif _is_user(turn) and isinstance(_get_content(turn), list):
        for block in _get_content(turn):
            if block.get("type") == "tool_result":
                yield Result(block.get("tool_use_id", ""), _join_text(block.get("content")))
            elif answered := block.get("functionResponse"):
                yield Result(answered.get("id", ""), _read_output(answered.get("response")))


def _get_content(turn: dict[str, Any]) -> Any:
    return turn.get("parts") if "parts" in turn else turn.get("content")


def _read_output(response: Any) -> str:
    """Return the result of a Gemini tool: its ``output``, its ``error``, or all of it."""
    result = response if isinstance(response, dict) else {}
    said = result.get("output", result.get("error", result))
    return said if isinstance(said, str) else json.dumps(said)


def _join_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))
