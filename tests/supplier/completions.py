"""OpenAI's older dialect: the continuation of a text."""

from collections.abc import Iterator
from typing import Any

from tests.supplier.chat import DONE, render_error, render_failure, render_usage
from tests.supplier.frames import CREATED, encode_event
from tests.supplier.request import Request
from tests.supplier.steps import Answer, Say

__all__ = ["render_error", "render_failure", "render_reply", "render_stream"]

PATH = "/v1/completions"


def render_stream(answer: Answer, request: Request, number: int) -> Iterator[bytes]:
    """Render the answer as server-sent events."""
    asked = bool((request.body.get("stream_options") or {}).get("include_usage"))
    head = _build_head(request, number)
    no_usage = {"usage": None} if asked else {}
    for part in answer.parts:
        for piece in part.split():
            yield encode_event({**head, "choices": [_build_choice(piece, None)], **no_usage})
    end = _build_choice("", answer.finish or "stop")
    yield encode_event({**head, "choices": [end], **no_usage})
    if asked and answer.usage:
        yield encode_event({**head, "choices": [], "usage": render_usage(answer.usage)})
    yield DONE


def render_reply(answer: Answer, request: Request, number: int) -> dict[str, Any]:
    """Render the answer as one JSON object."""
    choice = _build_choice(answer.join_text(Say), answer.finish or "stop")
    whole = {**_build_head(request, number), "choices": [choice]}
    return {**whole, "usage": render_usage(answer.usage)} if answer.usage else whole


def _build_head(request: Request, number: int) -> dict[str, Any]:
    about = {"object": "text_completion", "created": CREATED, "model": request.model}
    return {"id": f"cmpl-{number}", **about}


def _build_choice(text: str, finish: str | None) -> dict[str, Any]:
    return {"text": text, "index": 0, "logprobs": None, "finish_reason": finish}
