"""Behind a reverse proxy, below a path of its own."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.support.daemon import Serving
from tests.ui.support import Person, sign_in

from playwright.sync_api import Browser, expect  # isort: skip

PREFIX = "/tools/agentd"


@contextmanager
def reverse_proxy(port: int, asleep: threading.Event | None = None) -> Iterator[str]:
    """Pass on what comes below the prefix, without it, with the Host that the client sent.

    While the client is ``asleep``, what comes for it is lost: its connection stays open, and
    nothing more arrives by it ever.
    """

    class Forward(BaseHTTPRequestHandler):
        def forward(self) -> None:
            if not self.path.startswith(f"{PREFIX}/"):
                self.send_error(404)
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as upstream:
                headers = dict(self.headers.items())
                upstream.request(self.command, self.path.removeprefix(PREFIX), body, headers)
                answer = upstream.getresponse()
                self.send_response_only(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection"):
                        self.send_header(name, value)
                self.send_header("Connection", "close")
                self.end_headers()
                is_lost = False
                while portion := answer.read1(65536):
                    is_lost = is_lost or (asleep is not None and asleep.is_set())
                    if not is_lost:
                        self.wfile.write(portion)

        do_GET = do_POST = do_PUT = do_DELETE = forward  # noqa: N815

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:
                return  # the browser has left

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Forward)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{PREFIX}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_everything_works_below_a_path(browser: Browser, site: Serving) -> None:
    site.administrator()
    chat = site.client().create_chat(title="Behind a proxy")
    with reverse_proxy(site.port) as url:
        context = browser.new_context(service_workers="block")
        requests: list[str] = []
        context.on("request", lambda request: requests.append(request.url))
        page = Person(context, url).open(f"/{chat}")
        sign_in(page)
        expect(page).to_have_url(f"{url}/{chat}")
        expect(page.locator(".foot small")).to_contain_text("live")
        page.get_by_label("Prompt", exact=True).fill("through it")
        page.get_by_label("Prompt", exact=True).press("Enter")
        expect(page.locator(".prose", has_text="echo: through it")).to_be_visible()
        page.locator(".nav .item", has_text="Needs you").click()
        expect(page).to_have_url(f"{url}/inbox")
        page.reload()
        expect(page.get_by_role("heading", name="Needs you", exact=True)).to_be_visible()
        assert not [one for one in requests if not one.startswith(f"{url}/")]
        context.close()
