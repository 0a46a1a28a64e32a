"""``POST /api/qr``: a text as a QR code, so that a phone need not type an address."""

import asyncio
from typing import Annotated

from msgspec import Meta, Struct

from agentd.core.errors import BadRequest
from agentd.http.access import RouteGroup
from agentd.http.request import Request, Response
from agentd.http.routing import Route

MAX_TEXT = 600
"""Characters of a text: what holds more is too fine for a phone's camera."""


class QrText(Struct, frozen=True):
    """The text to encode, such as an address. It is sent in the body, which is not logged."""

    text: Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)]


class QrView(Struct, frozen=True):
    """The code as a square of modules."""

    size: int
    """Modules on each side, without the margin of four that a reader needs."""
    path: str
    """The dark modules as the ``d`` of an SVG path, a unit for each module."""


async def make_qr(request: Request) -> Response:
    """Return the code of a text."""
    text = request.parse_json(QrText).text
    return Response(await asyncio.to_thread(_encode, text))


def _encode(text: str) -> QrView:
    import segno  # noqa: PLC0415 - few need it, and half of the library of the web comes with it

    try:
        code = segno.make_qr(text, error="m")
    except (ValueError, UnicodeError) as error:
        raise BadRequest("This text fits into no QR code") from error
    rows = [bytes(row) for row in code.matrix]
    return QrView(len(rows), "".join(map(_draw_row, range(len(rows)), rows)))


def _draw_row(y: int, row: bytes) -> str:
    """Return the row's dark modules, each run of them as one bar."""
    parts, start = [], 0
    while (start := row.find(1, start)) >= 0:
        end = row.find(0, start)
        end = len(row) if end < 0 else end
        parts.append(f"M{start} {y}h{end - start}v1h-{end - start}z")
        start = end
    return "".join(parts)


def routes() -> tuple[Route, ...]:
    """Return the route."""
    return (
        Route(
            "POST",
            "/api/qr",
            RouteGroup.EXTENDED,
            make_qr,
            "Encode a text as a QR code; nothing is stored.",
            request_type=QrText,
            example={"text": "https://agentd.example/"},
            response_type=QrView,
            errors=(BadRequest,),
            role="viewer",
        ),
    )
