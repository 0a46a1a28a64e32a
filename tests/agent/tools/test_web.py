"""Pages of the public web are got as text; nothing of this machine's networks is."""

import asyncio
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from agentd.agent.tools.model import FetchPage
from agentd.agent.tools.page_text import render_html
from agentd.agent.tools.results import WebPage
from agentd.agent.tools.web import LARGEST_PAGE, LONGEST_TEXT, WebFetcher, check_url
from agentd.core.errors import BadRequest, Unavailable

PAGE = """<!DOCTYPE html><html><head><title>No</title><style>p{}</style></head><body>
<h1>Tea</h1><script>alert(1)</script><p>It is <b>hot</b>&amp;good, see <a href="/more">this</a>.
<ul><li>one<li>two</ul></body></html>"""

ANSWERS = {
    "/page": (200, {"Content-Type": "text/html; charset=utf-8"}, PAGE.encode()),
    "/latin": (200, {"Content-Type": "text/plain; charset=latin-1"}, "Grüße".encode("latin-1")),
    "/meta": (
        200,
        {"Content-Type": "text/html"},
        '<html><head><meta charset="windows-1251"></head><p>Чай'.encode("cp1251"),
    ),
    "/old-meta": (
        200,
        {"Content-Type": "text/html"},
        '<meta http-equiv="x" content="text/html; charset=gb2312"><p>茶鎔'.encode("gbk"),
    ),
    "/utf-16": (200, {"Content-Type": "text/plain"}, "Tee ü".encode("utf-16")),
    "/odd": (200, {"Content-Type": "text/plain; charset=undefined"}, b"tea"),
    "/json": (404, {"Content-Type": "application/problem+json"}, b'{"a": 1}'),
    "/image": (200, {"Content-Type": "image/png"}, b"\x89PNG"),
    "/large": (200, {"Content-Type": "text/plain"}, b"x" * (LARGEST_PAGE + 1)),
    "/long": (200, {"Content-Type": "text/plain"}, b"x" * (LONGEST_TEXT + 1)),
    "/moved": (302, {"Location": "/page#here"}, b""),
    "/loop": (302, {"Location": "/loop"}, b""),
    "/away": (302, {"Location": "http://169.254.169.254/latest/meta-data"}, b""),
    "/file": (302, {"Location": "file:///etc/passwd"}, b""),
}


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, headers, body = ANSWERS[self.path]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def fetch(url: str, *, local: bool = True) -> WebPage:
    return asyncio.run(WebFetcher(local=local).fetch(FetchPage(url)))


def test_a_page_is_got_as_text(site):
    page = fetch(f"{site}/page")
    assert page.status == 200
    assert page.text == "# Tea\n\nIt is hot&good, see this (/more).\n\n- one\n- two"


def test_a_page_without_the_end_of_its_head_has_text():
    assert render_html("<html><head><title>No</title><body>Tea<p>hot") == "Tea\nhot"
    assert render_html("<head><script>x</script><meta a><p>Tea") == "Tea"


def test_preformatted_text_keeps_its_blanks():
    page = "<pre><code>def f():\n    return  1\n\tx</code></pre><p>a   b"
    assert render_html(page) == "def f():\n    return  1\n\tx\n\na b"


@pytest.mark.parametrize(
    ("path", "text"),
    [("/meta", "Чай"), ("/old-meta", "茶鎔"), ("/utf-16", "Tee ü"), ("/odd", "tea")],
)
def test_a_page_is_read_in_the_character_set_that_it_names_itself(site, path, text):
    assert fetch(f"{site}{path}").text == text


def test_other_text_is_got_as_it_is_with_its_status(site):
    assert fetch(f"{site}/latin").text == "Grüße"
    page = fetch(f"{site}/json")
    assert (page.status, page.text) == (404, '{"a": 1}')


def test_a_long_page_is_cut_and_says_so(site):
    page = fetch(f"{site}/long")
    assert page.truncated and len(page.text) == LONGEST_TEXT


def test_a_redirect_is_followed_on_its_host_only(site):
    assert fetch(f"{site}/moved").text.startswith("# Tea")
    away = fetch(f"{site}/away")
    assert "redirects to http://169.254.169.254/latest/meta-data" in away.text


@pytest.mark.parametrize("path", ["/loop", "/file", "/image", "/large"])
def test_what_cannot_be_shown_is_refused(site, path):
    with pytest.raises(BadRequest):
        fetch(f"{site}{path}")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/", "http://localhost/", "http://[::1]/", "http://169.254.169.254/",
        "http://10.0.0.1/", "http://0x7f.1/", "http://2130706433/", "http://[::ffff:127.0.0.1]/",
        "http://printer.local/", "http://127.0.0.1.:80/",
    ],
)  # fmt: skip
def test_this_machine_and_its_networks_are_never_called(url):
    with pytest.raises(Unavailable, match=r"not a public host$"):
        fetch(url, local=False)


def test_not_even_where_a_server_listens(site):
    with pytest.raises(Unavailable, match=r"not a public host$"):
        fetch(f"{site}/page", local=False)


@pytest.mark.parametrize(
    "url",
    ["", "x", "file:///etc/passwd", "ftp://a/", "http://", "http://u:p@a/", "http://a b/",
     "http://a:99999/", "http://ä/", "http://[/"],
)  # fmt: skip
def test_what_is_no_address_is_refused(url):
    with pytest.raises(BadRequest):
        check_url(url)


def test_an_endless_page_of_open_tags_takes_no_time():
    assert render_html("<div>" * 100_000 + "x") == "x"


@pytest.mark.parametrize(
    "unit",
    ["<a ", "<a x='", '<a x="', "<a/", "<a =", "<!--", "<!", "<?", "</", "<![if ", "<![CDATA[",
     "<aaaaaaa", "<script>", "<script></scrip", "&#", "&#1", "<a href=", "= ", "\n \n", "<"],
)  # fmt: skip
def test_a_page_that_is_made_to_hurt_takes_no_time(unit):
    began = time.process_time()
    render_html(unit * (100_000 // len(unit)))
    render_html(f"<a {unit * (100_000 // len(unit))}")
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("a<!-- <b> -->b<!-->c<?x ?>d", "abcd"),
        ("<a href='/x?a=1&amp;b=2'>t</a>", "t (/x?a=1&b=2)"),
        ('<A title="a > b" data-href="/no" HREF = /y>t</A>', "t (/y)"),
        ("<script>if (a<b) '</p>'</script >x", "x"),
        ("1 < 2 &lt; 3 & 4", "1 < 2 < 3 & 4"),
        ("<p title=it's>one</p><p>it's two</p>", "one\n\nit's two"),
        (f"&#{'1' * 5000};x", "\ufffdx"),
        ("x<p title='never closed>y", "x"),
    ],
)
def test_a_page_is_read_as_browsers_read_it(page, text):
    assert render_html(page) == text
