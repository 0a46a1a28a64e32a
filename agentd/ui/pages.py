"""The addresses that a browser opens, and the files that their page loads.

Every page is the same document, which holds no data: what a person may see comes from the API,
with the login. So it is public, and never stored. References in it are relative, so it works
behind a reverse proxy below any path.
"""

import re
from collections.abc import Callable
from html import escape
from string import Template

from msgspec import Struct

from agentd.http.access import RouteGroup
from agentd.http.request import Request, Response
from agentd.http.routing import Parameter, Route, Schema
from agentd.ui.assets import JOINED_STYLES, Asset, AssetBundle

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:;"
    " connect-src 'self'; media-src 'self' blob:; manifest-src 'self'; worker-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types agentd-message"
)
"""Nothing but our own files runs, and HTML enters a page through one policy only."""

THEME_COOKIE = "agentd-theme"
"""The look that a person chose, so that the first paint has it: ``light`` or ``dark``."""

ENTRY = "main.js"

_SAME_ORIGIN = {"Cross-Origin-Resource-Policy": "same-origin"}
_PAGE_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
    "Vary": "Cookie",
    "Cross-Origin-Opener-Policy": "same-origin",  # of documents only; files would ignore it
    **_SAME_ORIGIN,
}
_FOREVER = "public, max-age=31536000, immutable"
_GZIP = re.compile(r"(?:^|[,\s])(?:gzip|\*)\s*(?:$|,|;(?!\s*q\s*=\s*0(?:\.0*)?\s*(?:$|,)))")

_THEME = re.compile(rf"(?:^|;)\s*{THEME_COOKIE}=(light|dark)\s*(?:;|$)")
_TEXT: Schema = {"type": "string", "minLength": 1}

PAGES = (
    "/",
    "/{chatId}",
    "/chats",
    "/chats/trash",
    "/inbox",
    "/analytics",
    "/schedules",
    "/login",
    "/welcome",
    "/workspace/{page}",
    "/settings",
    "/settings/{page}",
    "/gateway",
    "/gateway/{page}",
    "/gateway/{page}/{item}",
)
"""All addresses of pages. A chat's is its number, as the specification says."""

UNHASHED = (
    "icon.svg",
    "icon-180.png",
    "icon-192.png",
    "icon-512.png",
    "icon-maskable-512.png",
    "manifest.webmanifest",
    "sw.js",
)
"""Files at the top: a worker rules only what is below its own address, and an installed page keeps
the addresses of its icons over updates."""


class Shell(Struct, frozen=True):
    """The document of every page, one for each depth of address and each look."""

    bodies: dict[tuple[int, str], bytes]

    def render(self, depth: int, theme: str) -> bytes:
        """Return the document for an address with so many slashes before its last part."""
        return self.bodies.get((depth, theme)) or self.bodies[depth, ""]


def build_shell(bundle: AssetBundle) -> Shell:
    """Fill the document's template with the addresses of what it loads first."""
    template = Template(bundle.get_text("shell.html"))
    modules = bundle.list_imports(ENTRY)
    bodies = {}
    for depth in range(1 + max(path.count("/") for path in PAGES)):
        root = "../" * depth or "./"
        base = f"{root}-/{bundle.version}/"
        preloads = [f'<link rel="modulepreload" href="{base}{escape(path)}">' for path in modules]
        for theme in ("", "light", "dark"):
            text = template.substitute(
                root=root,
                base=base,
                theme=f' data-theme="{theme}"' if theme else "",
                styles=f'<link rel="stylesheet" href="{base}{JOINED_STYLES}">',
                preloads="\n".join(preloads),
            )
            bodies[depth, theme] = text.encode()
    return Shell(bodies)


class PageEndpoints:
    """Answers with the document, and with the files."""

    def __init__(self, bundle: AssetBundle) -> None:
        self.bundle = bundle
        self._shell = build_shell(bundle)

    def show_page(self, request: Request) -> Response:
        """Return the document of every page."""
        if "chatId" in request.path_params:
            request.get_id("chatId", "Chat")
        chosen = _THEME.search(request.headers.get("Cookie", ""))
        theme = chosen[1] if chosen else ""
        body = self._shell.render(request.path.count("/") - 1, theme)
        return Response(body, headers=dict(_PAGE_HEADERS))

    def serve(self, asset: Asset, caching: str) -> Callable[[Request], Response]:
        """Return an endpoint that answers with this file."""
        headers = {
            "Content-Type": asset.media_type,
            "Cache-Control": caching,
            **_SAME_ORIGIN,
        }
        if asset.path == "sw.js":  # a worker is ruled by the policy of its own answer
            headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY

        def send_asset(request: Request) -> Response:
            if not asset.compressed:
                return Response(asset.content, headers=dict(headers))
            varying = {**headers, "Vary": "Accept-Encoding"}
            if _GZIP.search(request.headers.get("Accept-Encoding", "")):
                return Response(asset.compressed, headers={**varying, "Content-Encoding": "gzip"})
            return Response(asset.content, headers=varying)

        return send_asset


def routes(pages: PageEndpoints) -> tuple[Route, ...]:
    """Return the pages and files. None of them is part of the API."""
    shown = tuple(
        Route(
            "GET",
            path,
            RouteGroup.PUBLIC,
            pages.show_page,
            "A page of the browser interface.",
            parameters=tuple(
                Parameter(name, "path", "Which page.", _TEXT)
                for name in re.findall(r"{(page|item)}", path)
            ),
            extra_media_types=("text/html",),
            is_page=True,
        )
        for path in PAGES
    )
    return (*shown, *_list_asset_routes(pages))


def _list_asset_routes(pages: PageEndpoints) -> tuple[Route, ...]:
    bundle = pages.bundle
    found = [
        (f"/-/{bundle.version}/{path}", pages.serve(asset, _FOREVER))
        for path, asset in bundle.assets.items()
        if path not in ("shell.html", *UNHASHED)
    ]
    found += [
        (f"/{path}", pages.serve(bundle.assets[path], "no-cache"))
        for path in UNHASHED
        if path in bundle.assets
    ]
    return tuple(
        Route(
            "GET",
            path,
            RouteGroup.PUBLIC,
            endpoint,
            "A file of the browser interface.",
            extra_media_types=("*/*",),
            is_page=True,
        )
        for path, endpoint in found
    )
