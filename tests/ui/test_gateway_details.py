"""What is drawn of limits and requests, and what a VPN's preview says of traffic and expiry."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.supplier.steps import Answer, Say, Stall
from tests.support.daemon import until
from tests.ui.gateway_site import GatewaySite, open_gateway
from tests.ui.support import Person, person

from playwright.sync_api import Browser, expect  # isort: skip


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewaySite]:
    with open_gateway(tmp_path_factory.mktemp("gateway")) as site:
        assert site.ask(stream=True).status_code == 200
        yield site


@pytest.fixture
def gus(browser: Browser, gateway: GatewaySite) -> Iterator[Person]:
    """An administrator at a desk."""
    with person(browser, gateway.serving) as somebody:
        yield somebody


def test_a_limit_shows_what_a_request_under_way_reserves_and_a_forecast(
    gus: Person, gateway: GatewaySite
) -> None:
    key = f"/api/agent/keys/{gateway.ids['laptop']}"
    stall = Stall()
    gateway.supplier._always.insert(0, Answer((Say("Wait a bit."),), faults=(stall,)))
    asking = threading.Thread(target=lambda: gateway.ask(stream=True, max_tokens=5000))
    asking.start()
    try:
        (limit,) = until(
            lambda: [one for one in gateway.admin.get(key)["limitUsage"] if one["reserved"] > 0]
        )
        page = gus.open(f"/gateway/keys/{gateway.ids['laptop']}")
        card = page.get_by_role("region", name="Limits")
        row = card.get_by_role("listitem")
        expect(row).to_contain_text("reserved")
        shares = card.locator(".limit-bar i").evaluate_all(
            "all => all.map((one) => parseFloat(one.style.width))"
        )
        expected = [limit["used"] / limit["limit"] * 100, limit["reserved"] / limit["limit"] * 100]
        assert shares == pytest.approx(expected, abs=0.01)
        assert shares[1] > 0
        expect(row).to_contain_text("At this rate it")
    finally:
        gateway.supplier._always.pop(0)
        stall.release()
        asking.join()
    until(lambda: gateway.admin.get(key)["limitUsage"][0]["reserved"] == 0)
    expect(row).not_to_contain_text("reserved")


def test_the_parts_of_a_request_are_drawn_as_long_as_they_took(
    gus: Person, gateway: GatewaySite
) -> None:
    request = gateway.requests("ok=true")[0]
    timings = request["timings"]
    page = gus.open(f"/gateway/requests/{request['id']}")
    drawn = page.get_by_role("img", name="in all")
    expect(drawn).to_be_visible()
    assert "before the supplier" in (drawn.get_attribute("aria-label") or "")
    width = float((drawn.get_attribute("viewBox") or "").split()[2])
    bars = drawn.locator("rect").evaluate_all(
        "all => all.map((one) => [one.getAttribute('x'), one.getAttribute('width')].map(Number))"
    )
    ready, first, total = timings["ready"], timings["first"], timings["total"]
    spans = [(0, ready), (ready, first), (first, total)]
    for (left, wide), (begin, end) in zip(bars, spans, strict=True):
        assert left == pytest.approx(min(begin / total * width, width - 2), abs=0.5)
        assert wide == pytest.approx(max(2, (end - begin) / total * width), abs=0.5)


class _Subscription(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"ss://YWVzLTI1Ni1nY206cGFzc3dvcmQ@vpn.example.org:8388#Paris\n"
        self.send_response(200)
        used = "upload=1000000000; download=2000000000; total=10000000000; expire=4102444800"
        self.send_header("Subscription-Userinfo", used)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serve_subscription() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Subscription) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/sub"
        server.shutdown()
        thread.join()


def test_a_vpns_traffic_and_expiry_are_shown_before_it_is_saved(gus: Person) -> None:
    page = gus.open("/gateway/channels?new=1")
    with serve_subscription() as address:
        page.locator("dialog [name='local']").check()
        page.locator("dialog [name='transport.kind']").select_option("vpn")
        page.locator("dialog [name='transport.url']").fill(address)
        page.get_by_role("button", name="Look at the servers").click()
        servers = page.get_by_role("group", name="1 server")
        expect(servers).to_contain_text("7.0 GB left of 10.0 GB")
        expect(servers).to_contain_text("until")
        expect(servers).to_contain_text("2100")
