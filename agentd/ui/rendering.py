"""``POST /api/render``: a block of Markdown as cleaned HTML, such as one of a reply that grows."""

import asyncio

from msgspec import Struct

from agentd.core.errors import BadRequest, TooLarge
from agentd.core.markdown import MAX_INLINE, MAX_RENDERED, render_markdown
from agentd.http.access import RouteGroup
from agentd.http.request import Request, Response
from agentd.http.routing import Route

MAX_BODY = 1024 * 1024
"""Bytes of a request: four for each character that is rendered, escaped, and some to spare."""


class RenderMarkdown(Struct, frozen=True, rename="camel"):
    """The Markdown to render."""

    text: str
    keep_breaks: bool = False
    """True if line breaks are kept, as in what people type."""


class RenderedView(Struct, frozen=True):
    """Cleaned HTML. HTML in the text is shown as it is written, and images are links."""

    html: str
    cut: bool
    """True if the text was longer than what is rendered."""


async def render(request: Request) -> Response:
    """Render a block, in a thread where it is long."""
    body = request.parse_json(RenderMarkdown)
    if len(body.text) <= MAX_INLINE:
        rendered = render_markdown(body.text, keep_breaks=body.keep_breaks)
    else:
        rendered = await asyncio.to_thread(render_markdown, body.text, keep_breaks=body.keep_breaks)
    return Response(RenderedView(rendered.html, rendered.cut))


def routes() -> tuple[Route, ...]:
    """Return the route; it changes nothing, so viewers may use it too."""
    return (
        Route(
            "POST",
            "/api/render",
            RouteGroup.EXTENDED,
            render,
            f"Render Markdown as cleaned HTML, at most its first {MAX_RENDERED:,} characters.",
            request_type=RenderMarkdown,
            response_type=RenderedView,
            errors=(BadRequest, TooLarge),
            role="viewer",
            operation_id="render_markdown",
            max_body=MAX_BODY,
        ),
    )
