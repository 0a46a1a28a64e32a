"""The addresses of pages and files, over a real socket."""

import gzip
import re
from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPConnection
from types import MappingProxyType

import pytest

from agentd.ui.pages import CONTENT_SECURITY_POLICY
from tests.support.daemon import Client, Reply, Serving

PAGES = [
    "/",
    "/17",
    "/chats",
    "/chats/trash",
    "/inbox",
    "/analytics",
    "/login",
    "/welcome",
    "/workspace/changes",
    "/settings/you",
    "/gateway",
    "/gateway/requests",
    "/gateway/requests/some%2Fid",
]


class Visitor:
    """Somebody without a key or a login, who takes pages and files as well as JSON."""

    def __init__(self, serving: Serving) -> None:
        self._port = serving.port

    def send(self, method: str, path: str, headers: Mapping[str, str]) -> Reply:
        with closing(HTTPConnection("127.0.0.1", self._port, timeout=60)) as connection:
            connection.request(method, path, headers=dict(headers))
            answer = connection.getresponse()
            return Reply(answer.status, answer.headers, answer.read())

    def get(self, path: str, headers: Mapping[str, str] = MappingProxyType({})) -> Reply:
        return self.send("GET", path, headers)


@pytest.fixture
def visitor(shared: Serving) -> Visitor:
    return Visitor(shared)


def list_assets(page: bytes, at: str) -> list[str]:
    """List the absolute addresses of what a page at some address loads."""
    folder = at.rpartition("/")[0] + "/"
    found = []
    for reference in re.findall(rb'(?:href|src)="([^"]+)"', page):
        path = folder + reference.decode()
        while re.search(r"/(?!\.\.)[^/]+/\.\./", path):
            path = re.sub(r"/(?!\.\.)[^/]+/\.\./", "/", path, count=1)
        found.append(path.replace("/./", "/"))
    return found


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_public_not_stored_and_ruled_by_the_strict_policy(
    visitor: Visitor, path: str
) -> None:
    reply = visitor.get(path)
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert reply.headers["Cache-Control"] == "no-store"
    assert reply.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert reply.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert reply.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "microphone=(self)" in reply.headers["Permissions-Policy"]


@pytest.mark.parametrize("path", ["/", "/17", "/settings/you", "/gateway/requests/a"])
def test_what_a_page_loads_is_there_however_deep_its_address(visitor: Visitor, path: str) -> None:
    assets = list_assets(visitor.get(path).body, path)
    assert len(assets) > 15
    for asset in assets:
        assert visitor.get(asset).status == 200, asset


def test_a_page_has_no_inline_script_or_style(visitor: Visitor) -> None:
    page = visitor.get("/").body.decode()
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*\ssrc=)", page)
    assert 'rel="modulepreload"' in page


def test_the_look_is_that_of_the_cookie_from_the_first_byte(visitor: Visitor) -> None:
    def look(cookie: str) -> bool:
        page = visitor.get("/", {"Cookie": f"other=1; agentd-theme={cookie}"}).body
        return b'data-theme="dark"' in page

    assert look("dark")
    assert not look('dark"><script>')
    assert not look("light")


def test_files_may_be_kept_for_ever_and_come_compressed(visitor: Visitor) -> None:
    path = next(one for one in list_assets(visitor.get("/").body, "/") if one.endswith("main.js"))
    plain = visitor.get(path)
    assert "immutable" in plain.headers["Cache-Control"]
    assert plain.headers["Content-Type"] == "text/javascript; charset=utf-8"
    packed = visitor.get(path, {"Accept-Encoding": "br, gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert visitor.get(path, {"Accept-Encoding": "gzip;q=0"}).body == plain.body


def test_a_worker_and_the_manifest_are_looked_for_anew_each_time(visitor: Visitor) -> None:
    for path in ("/sw.js", "/manifest.webmanifest"):
        assert visitor.get(path).headers["Cache-Control"] == "no-cache"
    assert visitor.get("/sw.js").headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY


@pytest.mark.parametrize(
    "path", ["/-/0000000000000000/main.js", "/-/x", "/-/", "/0", "/017", "/12345678901234567890"]
)
def test_what_is_not_there_is_told_as_json(visitor: Visitor, path: str) -> None:
    reply = visitor.get(path)
    assert reply.status == 404
    assert reply["error"]


@pytest.mark.parametrize("path", ["/..%2fsetup.cfg", "/-/../main.js", "/shell.html"])
def test_no_address_leads_to_another_file(visitor: Visitor, path: str) -> None:
    assert visitor.get(path).status == 404


def test_pages_hide_no_address_of_the_api_or_the_gateway(visitor: Visitor) -> None:
    assert visitor.get("/api/chats").status == 401
    assert visitor.get("/v1/models").status == 401
    assert visitor.get("/healthz").status == 200
    assert visitor.send("POST", "/messages", {}).status == 404
    assert "/v1/messages" in visitor.send("POST", "/messages", {})["message"]
    assert visitor.send("POST", "/", {}).status == 405


def test_the_api_description_names_no_page(caller: Client) -> None:
    described = caller.get("/api/openapi.json")["paths"]
    assert "/api/chats" in described
    assert not [path for path in described if path in PAGES or path.startswith("/-/")]
