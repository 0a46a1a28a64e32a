"""The gateway's administration in a browser: what it shows is what the API says."""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.supplier.steps import Refuse
from tests.support.daemon import until
from tests.ui.accessibility import check_accessibility, find_wide_parts
from tests.ui.gateway_site import HOSTILE, STRIPE, GatewaySite, open_gateway
from tests.ui.support import DESK, PHONE, Person, person
from tests.ui.test_every_page import wait_until_loaded

from playwright.sync_api import Browser, Locator, Page, Route, expect  # isort: skip

PAGES = {
    "overview": "/gateway",
    "requests": "/gateway/requests",
    "request": "/gateway/requests/{request}",
    "keys": "/gateway/keys",
    "key": "/gateway/keys/{key}",
    "budgets": "/gateway/budgets",
    "channels": "/gateway/channels",
    "channel": "/gateway/channels/chat?check=1",
    "models": "/gateway/models",
    "model": "/gateway/models/by-chat",
    "secrets": "/gateway/secrets",
    "leaks": "/gateway/leaks",
    "alerts": "/gateway/alerts",
    "management keys": "/gateway/management-keys",
    "repricing": "/gateway/reprice",
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewaySite]:
    """A gateway that answered, refused and hid something."""
    with open_gateway(tmp_path_factory.mktemp("gateway")) as site:
        assert site.ask(stream=True).status_code == 200
        assert site.ask(key=HOSTILE).status_code == 200
        assert site.ask(text=f"The key is {STRIPE}.").status_code == 200
        assert site.ask(model=HOSTILE, key=HOSTILE).status_code == 404
        for name, scope in (("monitor", "read"), ("portal", "keys"), ("deployer", "all")):
            site.admin.post("/api/agent/management-keys", {"name": name, "scope": scope})
        budget = {"name": HOSTILE[:60], "tag": "research", "limits": {"day": 2}, "warnAt": 0.5}
        site.admin.post("/api/agent/budgets", budget)
        left = {"balance_infos": [{"currency": "USD", "total_balance": "4.2"}]}
        site.supplier.documents["/user/balance"] = left
        balance = {"source": "deepseek", "low": 5}
        site.admin.patch("/api/agent/channels/chat", {"balance": balance})
        site.admin.post("/api/agent/channels/chat/balance", {})
        yield site


@pytest.fixture
def gus(browser: Browser, gateway: GatewaySite) -> Iterator[Person]:
    """An administrator at a desk."""
    with person(browser, gateway.serving) as somebody:
        yield somebody


def get_address(gateway: GatewaySite, name: str) -> str:
    request = gateway.requests("hidden=true")[0]["id"]
    return PAGES[name].format(request=request, key=gateway.ids["laptop"])


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_a_page_can_be_used_by_everybody_and_fits_its_width(
    browser: Browser,
    gateway: GatewaySite,
    size: tuple[int, int],
    name: str,
    tmp_path: Path,
) -> None:
    """Acceptance rows 37 to 39; its picture is in the test's temporary folder."""
    with person(browser, gateway.serving, size=size) as somebody:
        page = somebody.open(get_address(gateway, name))
        page.locator(".page .card, .split:not(.open) tbody tr, .drawer .kv").first.wait_for()
        wait_until_loaded(page)
        check_accessibility(page, tmp_path / name)
        assert not find_wide_parts(page, ".scroll, .log")
        assert page.evaluate("window.hit") is None


def test_the_figures_are_those_of_the_summary(gus: Person, gateway: GatewaySite) -> None:
    page = gus.open("/gateway")
    today = gateway.admin.get("/api/agent/summary")["today"]
    figures = page.get_by_role("region", name="Today")
    expect(figures.locator(".figure", has_text="Requests").locator(".val")).to_have_text(
        str(today["requests"])
    )
    expect(figures.locator(".figure", has_text="Spent today")).to_contain_text("$0.0")
    expect(figures.locator(".figure", has_text="Secrets found").locator(".val")).to_have_text(
        str(today["secrets"])
    )


@pytest.mark.parametrize(
    ("figure", "query"),
    [("Requests", ""), ("Not ok", "ok=false"), ("Secrets found", "hidden=true")],
)
def test_a_number_leads_to_the_requests_that_it_counts(
    gus: Person, gateway: GatewaySite, figure: str, query: str
) -> None:
    page = gus.open("/gateway")
    page.get_by_role("region", name="Today").locator(".figure", has_text=figure).locator(
        ".val a"
    ).click()
    expect(page.get_by_role("heading", name="Requests")).to_be_visible()
    expected = gateway.requests(query)
    rows = page.locator(".log tbody tr")
    expect(rows).to_have_count(len(expected))


def test_the_overview_says_what_needs_attention(gus: Person, gateway: GatewaySite) -> None:
    """A channel whose calls fail is named, with its requests."""
    gateway.supplier.forget()
    gateway.admin.patch(f"/api/agent/keys/{gateway.ids['laptop']}", {"limits": {"day": "0.01"}})
    page = gus.open("/gateway")
    attention = page.get_by_role("region", name="Needs attention")
    expect(attention).to_contain_text("Key laptop")
    attention.get_by_role("link", name="Its limits").click()
    expect(page.get_by_role("heading", name="laptop")).to_be_visible()
    gateway.admin.patch(f"/api/agent/keys/{gateway.ids['laptop']}", {"limits": {"day": "1"}})


def test_only_administrators_see_the_gateway(browser: Browser, gateway: GatewaySite) -> None:
    """Acceptance row 4."""
    with person(browser, gateway.serving) as somebody:
        somebody.context.route(
            "**/api/session",
            lambda route: route.fulfill(
                json={
                    "kind": "user",
                    "user": "mia",
                    "role": "manager",
                    "xsrf": "",
                    "expiresAt": None,
                }
            ),
        )
        page = somebody.open("/gateway")
        expect(page.get_by_text("Only administrators see the gateway")).to_be_visible()
        expect(page.get_by_role("navigation", name="Area")).to_have_count(0)


def find_field(page: Page, name: str) -> Locator:
    """Find a field of the open form."""
    return page.locator(f"dialog [name='{name}']")


def open_log(person: Person, query: str = "") -> Page:
    page = person.open(f"/gateway/requests{query}")
    page.locator(".log tbody tr").first.wait_for()
    wait_until_loaded(page)
    return page


def test_a_request_is_opened_by_the_keyboard_and_shows_where_its_money_went(
    gus: Person, gateway: GatewaySite
) -> None:
    """Row 24: the drawer, and back."""
    page = open_log(gus, f"?key={gateway.ids['laptop']}&hidden=true")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    drawer = page.get_by_role("complementary", name="One request")
    expect(drawer.get_by_text("answered", exact=True)).to_be_visible()
    detail = gateway.admin.get(f"/api/agent/requests/{gateway.requests('hidden=true')[0]['id']}")
    assert {one["bucket"] for one in detail["costs"]} == {"input", "output"}
    assert sum(one["cost"] for one in detail["costs"]) == pytest.approx(detail["request"]["cost"])
    expect(drawer.get_by_role("region", name="Tokens and cost")).to_contain_text("1,000 · $0.003")
    expect(drawer.locator("mark").first).to_have_text("stripe")
    expect(drawer).not_to_contain_text(STRIPE)
    expect(page).to_have_url(re.compile("open="))
    page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()


def test_the_tries_that_failed_are_shown(gus: Person, gateway: GatewaySite) -> None:
    gateway.supplier._always.insert(0, refuse_chat)
    try:
        assert gateway.ask(text="the tries").status_code == 200
    finally:
        gateway.supplier._always.remove(refuse_chat)
    newest = gateway.requests()[0]
    assert [one["channel"] for one in newest["failedTries"]] == ["chat"]
    page = gus.open(f"/gateway/requests/{newest['id']}")
    tries = page.get_by_role("region", name="Attempts")
    expect(tries.locator("li").first).to_contain_text("chat")
    expect(tries.locator("li").first).to_contain_text("rate_limit")
    expect(tries.locator("li").last).to_contain_text("answered")


def refuse_chat(request):  # type: ignore[no-untyped-def]
    """Refuse requests of this dialect, which only the first channel speaks."""
    return Refuse(429, "Slow down") if request.path.endswith("chat/completions") else None


def test_a_filter_is_a_pill_and_stands_in_the_address(gus: Person, gateway: GatewaySite) -> None:
    """Row 24."""
    page = open_log(gus)
    page.get_by_role("button", name="Filter", exact=True).click()
    for label in ("Outcome", "Successful"):
        expect(page.get_by_label(label).locator("option:checked")).to_have_text("any")
    page.get_by_label("Successful").select_option("false")
    page.get_by_role("dialog").get_by_role("button", name="Filter", exact=True).click()
    expect(page).to_have_url(re.compile("ok=false"))
    expect(page.locator(".log tbody tr")).to_have_count(len(gateway.requests("ok=false")))
    page.get_by_role("button", name="Remove the filter outcome not ok").click()
    expect(page).not_to_have_url(re.compile("ok=false"))


def test_live_rows_pass_the_filters_and_wait_while_one_reads(
    gus: Person, gateway: GatewaySite
) -> None:
    """Acceptance row 24."""
    page = open_log(gus, f"?key={gateway.ids['laptop']}")
    rows = page.locator(".log tbody tr")
    many = len(gateway.requests(f"key={gateway.ids['laptop']}"))
    expect(rows).to_have_count(many)
    page.get_by_role("button", name="Hold").click()
    assert gateway.ask().status_code == 200
    assert gateway.ask(key=HOSTILE).status_code == 200
    waiting = page.get_by_role("button", name="1 new")
    expect(waiting).to_be_visible()
    expect(rows).to_have_count(many)
    waiting.click()
    expect(rows).to_have_count(many + 1)
    assert gateway.ask().status_code == 200
    expect(rows).to_have_count(many + 2)


def test_the_log_as_csv_has_what_passes_the_filters(gus: Person, gateway: GatewaySite) -> None:
    page = open_log(gus, "?ok=false")
    with page.expect_download() as loading:
        page.get_by_role("link", name="Download as CSV").click()
    lines = loading.value.path().read_text().splitlines()
    assert lines[0].startswith("id,at,outcome,")
    assert len(lines) == 1 + len(gateway.requests("ok=false"))


def test_a_key_is_shown_once(gus: Person, gateway: GatewaySite) -> None:
    """Row 6, for the gateway's keys."""
    page = gus.open("/gateway/keys")
    page.get_by_role("button", name="New key").click()
    find_field(page, "name").fill("a new one")
    find_field(page, "limits.day").fill("2,500")  # a thousand times as much, or not?
    page.get_by_role("button", name="Create key").click()
    expect(page.get_by_text("USD a day: this is not a number, such as 1000 or 0.5")).to_be_visible()
    find_field(page, "limits.day").fill("2,50")  # as the keyboards of many phones have it
    page.get_by_role("button", name="Create key").click()
    key = page.get_by_role("textbox", name="Key", exact=True).inner_text()
    gateway.keys["a new one"] = key
    assert gateway.ask(key="a new one").status_code == 200
    page.get_by_role("button", name="Done").click()
    expect(page.get_by_text(key)).to_have_count(0)
    assert gateway.admin.get("/api/agent/keys/a%20new%20one")["limits"]["day"] == 2.5


@pytest.mark.parametrize("path", ["/gateway/keys", "/gateway/management-keys"])
def test_a_new_key_stays_when_enter_is_pressed_twice(gus: Person, path: str) -> None:
    page = gus.open(path)
    page.get_by_role("button", name="New key").first.click()
    find_field(page, "name").fill("pressed-twice")
    page.keyboard.press("Enter")
    key = page.get_by_role("textbox", name="Key", exact=True)
    expect(key).to_be_focused()
    page.keyboard.press("Enter")
    expect(key).to_be_visible()
    page.get_by_role("button", name="Done").click()
    expect(key).to_have_count(0)


def test_a_limit_bar_says_what_the_ledger_has(gus: Person, gateway: GatewaySite) -> None:
    """Acceptance row 28."""
    spent = sum(one["cost"] for one in gateway.requests(f"key={gateway.ids['laptop']}&limit=200"))
    page = gus.open(f"/gateway/keys/{gateway.ids['laptop']}")
    limits = page.get_by_role("region", name="Limits")
    expect(limits).to_contain_text(f"${spent:.4f}".rstrip("0") + " of $1.00 a day")
    width = limits.locator(".limit-bar i").first.evaluate("(bar) => parseFloat(bar.style.width)")
    assert width == pytest.approx(spent * 100, abs=0.5)


def test_a_reissued_key_keeps_the_old_secret_for_its_grace(
    gus: Person, gateway: GatewaySite
) -> None:
    made = gateway.admin.post("/api/agent/keys", {"name": "reissued"})
    page = gus.open(f"/gateway/keys/{made['id']}")
    page.get_by_role("button", name="Actions for reissued").click()
    page.get_by_role("menuitem", name="Reissue").click()
    page.get_by_role("button", name="Reissue", exact=True).click()
    new = page.get_by_role("textbox", name="Key", exact=True).inner_text()
    page.get_by_role("button", name="Done").click()
    for name, key in (("old", made["key"]), ("new", new)):
        gateway.keys[name] = key
        assert gateway.ask(key=name).status_code == 200
    expect(page.get_by_text("old secret still good")).to_be_visible()


def test_what_another_changed_meanwhile_is_shown_beside(gus: Person, gateway: GatewaySite) -> None:
    """Acceptance row 35."""
    made = gateway.admin.post("/api/agent/keys", {"name": "contested", "limits": {"day": "1"}})
    page = gus.open(f"/gateway/keys/{made['id']}")
    page.get_by_role("button", name="Edit", exact=True).click()
    find_field(page, "limits.day").fill("3")
    gateway.admin.patch(f"/api/agent/keys/{made['id']}", {"limits": {"day": "2"}})
    page.get_by_role("button", name="Save").click()
    row = page.get_by_role("row", name=re.compile("USD a day"))
    expect(row).to_contain_text("3")
    expect(row.get_by_role("button", name="Take theirs")).to_be_visible()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert gateway.admin.get(f"/api/agent/keys/{made['id']}")["limits"]["day"] == 3


def test_a_check_shows_its_steps_as_they_end(gus: Person, gateway: GatewaySite) -> None:
    """Acceptance row 25: the answer of the check is held back, its steps are not."""
    page = gus.open("/gateway/channels/chat")
    page.get_by_role("button", name="Check", exact=True).wait_for()
    wait_until_loaded(page)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/api/agent/channels/chat/check", hold)
    page.get_by_role("button", name="Check", exact=True).click()
    until(lambda: page.evaluate("1") and held)
    waiting = page.locator(".steps .waits")
    expect(waiting).to_have_count(5)
    gateway.admin.send("POST", "/api/agent/channels/chat/check")
    expect(page.locator(".steps li", has_text="Sign in and list models")).to_contain_text(
        "2 models"
    )
    expect(waiting).to_have_count(0)
    held[0].continue_()
    expect(page.get_by_role("button", name="Check", exact=True)).to_be_enabled()


def test_a_masked_secret_that_is_not_touched_is_kept(gus: Person, gateway: GatewaySite) -> None:
    """Acceptance row 27."""
    page = gus.open("/gateway/channels/gemini")
    page.get_by_role("button", name="Edit", exact=True).click()
    expect(find_field(page, "key")).to_have_value(re.compile(r"^\*+"))
    find_field(page, "timeout").fill("77")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("77 s until an answer begins")).to_be_visible()
    assert gateway.ask(model="by-gemini").status_code == 200


def test_further_keys_are_added_and_each_shows_how_it_is(gus: Person, gateway: GatewaySite) -> None:
    page = gus.open("/gateway/channels/gemini")
    page.get_by_role("button", name="Edit", exact=True).click()
    find_field(page, "keys").fill("sk-second-0123456789WXYZ")
    page.get_by_role("button", name="Save").click()
    until(lambda: gateway.admin.get("/api/agent/channels/gemini")["keys"] == ["****WXYZ"])
    listed = page.locator("dd li", has_text="****WXYZ")
    expect(listed).to_be_visible()
    page.get_by_role("button", name="Edit", exact=True).click()
    expect(find_field(page, "keys")).to_have_value("****WXYZ")
    page.get_by_role("button", name="Cancel").click()
    gateway.supplier._always.insert(0, refuse_second_key)
    for _ in range(2):
        assert gateway.ask(model="by-gemini").status_code == 200
    gateway.supplier._always.remove(refuse_second_key)
    expect(page.locator("dd li", has_text="authentication")).to_be_visible()
    gateway.admin.patch("/api/agent/channels/gemini", {"keys": None})


def test_parameters_of_requests_are_changed_in_the_form(gus: Person, gateway: GatewaySite) -> None:
    for path, api in (
        ("/gateway/channels/responses", "/api/agent/channels/responses"),
        ("/gateway/models/by-responses", "/api/agent/models/by-responses"),
    ):
        page = gus.open(path)
        page.get_by_role("button", name="Edit", exact=True).click()
        find_field(page, "parameters").fill('{"set": {"temperature"')
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Parameters: this is not JSON")).to_be_visible()
        gus.complaints.clear()
        find_field(page, "parameters").fill('{"set": {"temperature": 0.2}, "remove": ["user"]}')
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("temperature: 0.2")).to_be_visible()
        assert gateway.admin.get(api)["parameters"]["remove"] == ["user"]
        gateway.admin.patch(api, {"parameters": None})


def test_the_addresses_of_a_key_are_changed_in_the_form(gus: Person, gateway: GatewaySite) -> None:
    made = gateway.admin.post("/api/agent/keys", {"name": "bound"})
    page = gus.open(f"/gateway/keys/{made['id']}")
    page.get_by_role("button", name="Edit", exact=True).click()
    find_field(page, "addresses").fill("10.0.0.0/8\n192.0.2.7")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("10.0.0.0/8, 192.0.2.7")).to_be_visible()
    saved = gateway.admin.get(f"/api/agent/keys/{made['id']}")["addresses"]
    assert saved == ["10.0.0.0/8", "192.0.2.7"]


def test_why_a_channel_was_disabled_is_shown(gus: Person, gateway: GatewaySite) -> None:
    channel, settings = "/api/agent/channels/messages", "/api/agent/settings"
    assert gateway.admin.patch(settings, {"disable_channel_after": 1}).status == 200
    gateway.supplier._always.insert(0, refuse_messages)
    try:
        assert gateway.ask(model="by-messages").status_code >= 400
        until(lambda: gateway.admin.get(channel)["autoDisabled"])
        for address in ("/gateway/channels", "/gateway/channels/messages"):
            page = gus.open(address)
            expect(page.get_by_text("The supplier did not accept its key")).to_be_visible()
    finally:
        gateway.supplier._always.remove(refuse_messages)
        gateway.admin.patch(settings, {"disable_channel_after": None})
        gateway.admin.send("POST", f"{channel}/enable")
    expect(page.get_by_text("The supplier did not accept its key")).to_have_count(0)


def refuse_messages(request):  # type: ignore[no-untyped-def]
    """The key of one channel is not valid."""
    return Refuse(401, "wrong key") if request.path.endswith("/v1/messages") else None


def refuse_second_key(request):  # type: ignore[no-untyped-def]
    """One of the channel's keys is not valid."""
    return Refuse(401, "wrong key") if "WXYZ" in str(request.headers) else None


def test_a_vpn_is_looked_at_before_it_is_saved(gus: Person, gateway: GatewaySite) -> None:
    """Acceptance row 26: its servers, never its credential."""
    secret = "YWVzLTI1Ni1nY206cGFzc3dvcmQ"
    page = gus.open("/gateway/channels?new=1")
    page.get_by_label("Supplier").first.select_option("openai")
    expect(find_field(page, "url")).to_have_value(re.compile("openai"))
    find_field(page, "transport.kind").select_option("vpn")
    find_field(page, "transport.url").fill(f"ss://{secret}@vpn.example.org:8388#Paris")
    page.get_by_role("button", name="Look at the servers").click()
    servers = page.get_by_role("group", name=re.compile("1 server"))
    expect(servers).to_contain_text("vpn.example.org:8388")
    expect(servers).not_to_contain_text(secret)
    servers.get_by_label(re.compile("Paris")).check()
    expect(find_field(page, "transport.server")).to_have_value("Paris")


def test_routes_are_ordered_and_weighed(gus: Person, gateway: GatewaySite) -> None:
    page = gus.open("/gateway/models/by-chat")
    routes = page.get_by_role("list", name=re.compile("Routes"))
    expect(routes.locator("li b")).to_have_text(["chat", "responses", "messages"])
    expect(routes.locator("li").nth(2)).to_contain_text("75 %")
    routes.get_by_label("Weight of messages").fill("1")
    page.keyboard.press("Tab")
    expect(routes.locator("li").nth(2)).to_contain_text("50 %")
    grip = routes.get_by_role("button", name="Move the route through messages")
    grip.focus()
    page.keyboard.press("Alt+ArrowUp")
    page.keyboard.press("Alt+ArrowUp")
    expect(routes.locator("li b")).to_have_text(["messages", "chat", "responses"])
    box = routes.get_by_role("button", name="Move the route through chat").bounding_box()
    last = routes.locator("li").last.bounding_box()
    assert box and last
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + 5, last["y"] + last["height"] - 4, steps=5)
    page.mouse.up()
    expect(routes.locator("li b")).to_have_text(["messages", "responses", "chat"])
    page.get_by_role("button", name="Save routes").click()
    expect(page.get_by_role("button", name="Save routes")).to_have_count(0)
    saved = gateway.admin.get("/api/agent/models/by-chat")["routes"]
    assert [(one["channel"], one["priority"]) for one in saved] == [
        ("messages", 0),
        ("responses", 1),
        ("chat", 2),
    ]


def test_fallbacks_are_a_list_of_names_and_the_log_shows_which_one_answered(
    gus: Person, gateway: GatewaySite
) -> None:
    routes = [{"channel": "gemini", "model": "unheard-of"}]
    model = {"name": "falls", "routes": routes, "prices": {"input": 1, "output": 1}}
    assert gateway.admin.post("/api/agent/models", model).status == 201
    page = gus.open("/gateway/models/falls")
    page.get_by_role("button", name="Edit", exact=True).click()
    find_field(page, "fallbacks").fill("falls\n")
    find_field(page, "contextFallbacks").fill("by-gemini\nby-messages\n")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_contain_text("falls → falls")
    find_field(page, "fallbacks").fill("by-messages")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    saved = gateway.admin.get("/api/agent/models/falls")
    assert saved["fallbacks"] == ["by-messages"]
    assert saved["contextFallbacks"] == ["by-gemini", "by-messages"]
    expect(page.get_by_role("link", name="by-messages", exact=True)).to_have_count(2)
    gateway.supplier._always.insert(0, refuse_unheard_of)
    try:
        assert gateway.ask(model="falls").status_code == 200
    finally:
        gateway.supplier._always.remove(refuse_unheard_of)
    newest = gateway.requests("model=falls")[0]
    page = gus.open(f"/gateway/requests/{newest['id']}")
    tries = page.get_by_role("region", name="Attempts")
    expect(tries.locator("li").first).to_contain_text("gemini not_found")
    expect(tries.locator("li").last).to_contain_text("messages (by-messages) answered")
    drawer = page.get_by_role("complementary", name="One request")
    about = drawer.get_by_role("link", name="by-messages", exact=True)
    expect(about).to_have_attribute("href", re.compile("/gateway/models/by-messages"))


def refuse_unheard_of(request):  # type: ignore[no-untyped-def]
    """Only this model is refused."""
    return Refuse(404, "No such model") if request.model == "unheard-of" else None


def test_a_dry_run_marks_while_one_types_and_keeps_nothing(
    gus: Person, gateway: GatewaySite
) -> None:
    """Acceptance row 29; what stands before the secret has characters of two UTF-16 units."""
    page = gus.open("/gateway/secrets")
    page.get_by_label("Text to try").fill(f"😀 {HOSTILE} {STRIPE} end")
    found = page.get_by_role("region", name="What would be found")
    expect(found.locator("mark")).to_have_text(STRIPE)
    expect(found).to_contain_text(HOSTILE)
    assert page.evaluate("window.hit") is None
    kept = page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")
    assert STRIPE not in kept
    page.reload()
    expect(page.get_by_label("Text to try")).to_have_value("")
    for path in Path(gateway.setup.layout.state).rglob("*"):
        with suppress(FileNotFoundError):  # one that was replaced meanwhile
            assert not path.is_file() or STRIPE.encode() not in path.read_bytes()


def test_a_rule_is_tried_before_it_is_saved(gus: Person, gateway: GatewaySite) -> None:
    page = gus.open("/gateway/secrets")
    page.get_by_role("button", name="Add a rule").click()
    dialog = page.get_by_role("dialog")
    find_field(page, "id").fill("ticket")
    find_field(page, "regex").fill("tkt_([a-z0-9]{20})")
    dialog.get_by_label("Text to try the rule on").fill("it is tkt_0123456789abcdefghij")
    expect(dialog.locator("mark")).to_be_visible()
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(dialog).to_have_count(0)
    assert gateway.admin.get("/api/agent/secret-rules/ticket")["mode"] == "hide"


def test_a_leak_leads_to_its_requests(gus: Person, gateway: GatewaySite) -> None:
    """Acceptance row 30."""
    page = gus.open("/gateway/leaks")
    page.get_by_role("region", name="Findings as a table").get_by_role(
        "link", name=re.compile("by stripe on")
    ).first.click()
    expect(page.locator(".log tbody tr")).to_have_count(len(gateway.requests("rule=stripe")))
    expect(page.get_by_role("button", name="Remove the filter found by stripe")).to_be_visible()


def test_a_failed_read_is_told_in_the_daemons_words_and_tried_again(
    gus: Person, gateway: GatewaySite
) -> None:
    failing = '{"error": "internal", "message": "The disk is full", "details": ""}'
    for path, api in (("", "overview"), ("/requests", "requests**"), ("/keys", "keys**")):
        gus.context.route(
            f"**/api/agent/{api}", lambda route: route.fulfill(status=500, body=failing)
        )
        page = gus.open(f"/gateway{path}")
        expect(page.get_by_role("alert").first).to_contain_text("The disk is full")
        gus.context.unroute(f"**/api/agent/{api}")
        page.get_by_role("button", name="Retry").click()
        expect(page.get_by_role("alert").filter(has_text="disk")).to_have_count(0)
        page.close()


def test_a_log_of_many_pages_keeps_three_of_them(gus: Person, gateway: GatewaySite) -> None:
    """Acceptance row 24: the API's pages are made up, what the browser keeps of them is not."""
    template = gateway.requests()[0]

    def answer(route) -> None:  # type: ignore[no-untyped-def]
        cursor = int(re.search(r"cursor=(\d+)", route.request.url + "&cursor=0")[1])  # type: ignore[index]
        items = [{**template, "id": f"made-{cursor + number}"} for number in range(100)]
        route.fulfill(json={"items": items, "next": str(cursor + 100), "corruptLines": 0})

    gus.context.route(re.compile("/api/agent/requests[?]"), answer)
    page = open_log(gus)
    rows = page.locator(".log tbody tr")
    for _ in range(5):
        last = rows.last.get_attribute("data-id")
        page.get_by_role("button", name="Older").click()
        expect(rows.last).not_to_have_attribute("data-id", last or "")
    expect(rows).to_have_count(300)
    page.locator(".log").evaluate("(log) => log.scrollTo(0, 0)")
    first = int((rows.first.get_attribute("data-id") or "").removeprefix("made-"))
    assert first >= 300
    page.get_by_role("button", name="Newer").click()
    expect(rows.first).to_have_attribute("data-id", f"made-{first - 100}")
    expect(rows).to_have_count(300)


def test_an_administrator_finds_keys_channels_and_models_by_their_names(
    gus: Person, gateway: GatewaySite
) -> None:
    page = gus.open("/inbox")
    page.locator(".shell").wait_for()
    for words, path in (
        ("laptop access", f"keys/{gateway.ids['laptop']}"),
        ("responses channel", "channels/responses"),
        ("by-chat model", "models/by-chat"),
    ):
        page.keyboard.press("Control+k")
        page.get_by_role("combobox").fill(words)
        name = words.split()[0]
        page.get_by_role("option", name=name).first.click()
        expect(page).to_have_url(f"{gateway.serving.url}/gateway/{path}")


def test_back_from_a_page_that_a_request_led_to_shows_its_row_again(
    browser: Browser, gateway: GatewaySite
) -> None:
    """Row 24."""
    for number in range(12):
        assert gateway.ask(text=f"request {number}").status_code == 200
    with person(browser, gateway.serving, size=(1440, 420)) as somebody:
        page = somebody.open("/gateway/requests")
        last = page.locator("tr[data-id]").last
        last.locator("a").last.click()
        drawer = page.get_by_role("complementary", name="One request")
        drawer.locator("a[href*='/gateway/']").first.click()
        expect(drawer).to_be_hidden()
        page.go_back()
        expect(drawer).to_be_visible()
        expect(page.locator("tr[aria-current]")).to_be_in_viewport()
        assert page.locator(".table.log").evaluate("(node) => node.scrollTop") > 0
