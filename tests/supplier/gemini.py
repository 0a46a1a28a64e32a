"""Google's Gemini dialect."""

from collections.abc import Iterator
from typing import Any

from tests.supplier.frames import encode_event
from tests.supplier.request import Request
from tests.supplier.steps import Answer, Call, Fail, Part, Refuse, Think, Tokens

PATH = r"/v1beta/models/[^/:]+:(?:generateContent|streamGenerateContent)"
"""Where models answer; the address names the model, and how the answer comes."""

_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


def render_stream(answer: Answer, request: Request, number: int) -> Iterator[bytes]:
    """Render the answer as events; each is a whole answer, the last one has the finish reason."""
    pieces = [part for parts in _iter_parts(answer, number, streamed=True) for part in parts]
    for piece in pieces or [{"text": ""}]:
        last = piece is (pieces or [piece])[-1]
        yield encode_event(
            _build_chunk([piece], _get_finish(answer) if last else "", answer, request, number)
        )


def render_reply(answer: Answer, request: Request, number: int) -> dict[str, Any]:
    """Render the answer as one JSON object."""
    parts = [part for parts in _iter_parts(answer, number, streamed=False) for part in parts]
    return _build_chunk(parts, _get_finish(answer), answer, request, number)


def render_usage(tokens: Tokens) -> dict[str, Any]:
    """Render usage in Google's form: cached tokens are part of the prompt, thoughts are apart."""
    return {
        "promptTokenCount": tokens.all_input,
        "cachedContentTokenCount": tokens.cached,
        "candidatesTokenCount": tokens.output - tokens.reasoning,
        "thoughtsTokenCount": tokens.reasoning,
        "totalTokenCount": tokens.all_input + tokens.output,
    }


def render_error(refuse: Refuse, number: int) -> dict[str, Any]:
    """Render an error; this dialect has no place for ``number``."""
    word = refuse.type or _STATUSES.get(refuse.status, "INTERNAL")
    return {"error": {"code": refuse.status, "message": refuse.message, "status": word}}


def render_failure(fail: Fail, request: Request, number: int) -> bytes:
    """Render an error within a stream that has begun."""
    return encode_event(render_error(Refuse(503, fail.message, fail.type), number))


def _build_chunk(
    parts: list[dict[str, Any]], finish: str, answer: Answer, request: Request, number: int
) -> dict[str, Any]:
    ended = {"finishReason": finish} if finish else {}
    candidate = {"content": {"parts": parts, "role": "model"}, **ended, "index": 0}
    result = {"modelVersion": request.model, "responseId": f"response-{number}"}
    counts = {"usageMetadata": render_usage(answer.usage)} if answer.usage else {}
    return {"candidates": [candidate], **counts, **result}


def _iter_parts(answer: Answer, number: int, *, streamed: bool) -> Iterator[list[dict[str, Any]]]:
    """Yield the parts; the signature of a thought is on the part that follows."""
    seal: dict[str, str] = {}
    for index, part in enumerate(answer.parts):
        made = list(_iter_pieces(part, number, index, streamed=streamed))
        if isinstance(part, Think):
            seal = {"thoughtSignature": part.signature}
        elif made:
            made[0] |= seal
            seal = {}
        yield made
    if seal:
        yield [{"text": "", **seal}]


def _iter_pieces(
    part: Part, number: int, index: int, *, streamed: bool
) -> Iterator[dict[str, Any]]:
    if isinstance(part, Call):
        call = {"id": f"call_{number}_{index}", "name": part.name, "args": part.value}
        yield {"functionCall": call}
        return
    thought = {"thought": True} if isinstance(part, Think) else {}
    for piece in part.split() if streamed else [part.text]:
        yield {"text": piece, **thought}


def _get_finish(answer: Answer) -> str:
    return answer.finish or "STOP"
