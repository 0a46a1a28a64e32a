"""A request as the scripted supplier saw it, whatever the dialect."""

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

from msgspec import Struct, field


class Result(Struct, frozen=True):
    """What a tool gave back: ``call`` is the id of the call that it answers."""

    call: str
    text: str


class Request(Struct, frozen=True):
    """What a client sent; ``body`` is the parsed JSON, None where there was none.

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
        return str(self._get("model") or "")

    @property
    def streaming(self) -> bool:
        """Whether the answer is to come as server-sent events."""
        return bool(self._get("stream"))

    @property
    def tools(self) -> dict[str, str]:
        """The tools on offer: the type of each by its name."""
        offered = self._get("tools") or []
        flat = [(tool, tool.get("function") or tool) for tool in offered]
        return {told.get("name", ""): tool.get("type", "function") for tool, told in flat}

    @property
    def turns(self) -> list[dict[str, Any]]:
        """The conversation: messages, or the items of the Responses dialect."""
        told = self._get("messages")
        given = self._get("input") if told is None else told
        if isinstance(given, str):
            return [{"role": "user", "content": given}]
        return list(given or [])

    @property
    def prompt(self) -> str:
        """The text of the last message of the user that says anything."""
        said = (_text(turn.get("content")) for turn in reversed(self.turns) if _is_user(turn))
        return next((text for text in said if text), "")

    @property
    def results(self) -> list[Result]:
        """The results of tools that the conversation ends with: what the model is to go on from."""
        last: list[Result] = []
        for turn in reversed(self.turns):
            found = list(_results(turn))
            if not found:
                break
            last[:0] = found
        return last

    def leave(self) -> None:
        """The client has closed the connection."""
        if not self.gone.done():
            self.gone.set_result(None)

    def _get(self, key: str) -> Any:
        return self.body.get(key) if isinstance(self.body, dict) else None


def _is_user(turn: dict[str, Any]) -> bool:
    return turn.get("role") == "user"


def _results(turn: dict[str, Any]) -> Iterator[Result]:
    if turn.get("role") == "tool":
        yield Result(turn.get("tool_call_id", ""), _text(turn.get("content")))
    elif str(turn.get("type", "")).endswith("_call_output"):
        yield Result(turn.get("call_id", ""), _text(turn.get("output")))
    elif _is_user(turn) and isinstance(turn.get("content"), list):
        for block in turn["content"]:
            if block.get("type") == "tool_result":
                yield Result(block.get("tool_use_id", ""), _text(block.get("content")))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))
