"""Google's Gemini dialect."""

from collections.abc import Iterator
from typing import Any

from tests.supplier.frames import unnamed
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


def stream(answer: Answer, request: Request, number: int) -> Iterator[bytes]:
    """The answer as server-sent events; each is a whole answer, the last one tells the reason."""
    pieces = [part for parts in _parts(answer, number, streamed=True) for part in parts]
    for piece in pieces or [{"text": ""}]:
        last = piece is (pieces or [piece])[-1]
        yield unnamed(_answer([piece], _finish(answer) if last else "", answer, request, number))


def reply(answer: Answer, request: Request, number: int) -> dict[str, Any]:
    """The answer as one JSON object."""
    parts = [part for parts in _parts(answer, number, streamed=False) for part in parts]
    return _answer(parts, _finish(answer), answer, request, number)


def usage(tokens: Tokens) -> dict[str, Any]:
    """Tokens in Google's words: the cached ones inside the prompt, thinking beside the reply."""
    return {
        "promptTokenCount": tokens.all_input,
        "cachedContentTokenCount": tokens.cached,
        "candidatesTokenCount": tokens.output - tokens.reasoning,
        "thoughtsTokenCount": tokens.reasoning,
        "totalTokenCount": tokens.all_input + tokens.output,
    }


def error(refuse: Refuse, number: int) -> dict[str, Any]:
    """An error; ``number`` is not told in this dialect."""
    word = refuse.type or _STATUSES.get(refuse.status, "INTERNAL")
    return {"error": {"code": refuse.status, "message": refuse.message, "status": word}}


def failure(fail: Fail, request: Request, number: int) -> bytes:
    """An error within a stream that had begun."""
    return unnamed(error(Refuse(503, fail.message, fail.type), number))


def _answer(
    parts: list[dict[str, Any]], finish: str, answer: Answer, request: Request, number: int
) -> dict[str, Any]:
    ended = {"finishReason": finish} if finish else {}
    candidate = {"content": {"parts": parts, "role": "model"}, **ended, "index": 0}
    result = {"modelVersion": request.model, "responseId": f"response-{number}"}
    counts = {"usageMetadata": usage(answer.usage)} if answer.usage else {}
    return {"candidates": [candidate], **counts, **result}


def _parts(answer: Answer, number: int, *, streamed: bool) -> Iterator[list[dict[str, Any]]]:
    """The parts; what was thought is sealed at the part that comes next."""
    seal: dict[str, str] = {}
    for index, part in enumerate(answer.parts):
        made = list(_made(part, number, index, streamed=streamed))
        if isinstance(part, Think):
            seal = {"thoughtSignature": part.signature}
        elif made:
            made[0] |= seal
            seal = {}
        yield made
    if seal:
        yield [{"text": "", **seal}]


def _made(part: Part, number: int, index: int, *, streamed: bool) -> Iterator[dict[str, Any]]:
    if isinstance(part, Call):
        call = {"id": f"call_{number}_{index}", "name": part.name, "args": part.value}
        yield {"functionCall": call}
        return
    thought = {"thought": True} if isinstance(part, Think) else {}
    for piece in part.pieces() if streamed else [part.text]:
        yield {"text": piece, **thought}


def _finish(answer: Answer) -> str:
    return answer.finish or "STOP"
