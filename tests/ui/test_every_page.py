"""Rules for every page: everybody can use it, and no text becomes code."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import pytest

from agentd.agent.engine import Question, ReplyCompleted, ReplyDelta, ToolUsed
from tests.support.daemon import Serving, until
from tests.ui.accessibility import check_accessibility
from tests.ui.support import DESK, PHONE, Person, TalkingEngine, person

from playwright.sync_api import Browser, Page, expect  # isort: skip

PAGES = {
    "new": "/",
    "chats": "/chats",
    "inbox": "/inbox",
    "trash": "/chats/trash",
    "changes": "/workspace/changes",
    "history": "/workspace/history",
    "files": "/workspace/files",
    "builds": "/workspace/builds",
    "deployments": "/workspace/deployments",
    "analytics": "/analytics",
    "schedules": "/schedules",
    "welcome": "/welcome",
    "missing": "/settings/none",
    "you": "/settings/you",
    "agent": "/settings/agent",
    "models": "/settings/models",
    "skills": "/settings/skills",
    "labels": "/settings/labels",
    "bots": "/settings/bots",
    "mcp-servers": "/settings/mcp-servers",
    "hooks": "/settings/hooks",
    "configuration": "/settings/configuration",
    "about": "/settings/about",
}
"""Beside the chats of ``chats``."""
BUSY = ".skeleton, [aria-busy=true]"
"""What a page shows while it reads."""
ALL = [*PAGES, "done", "asks", "login"]

PAYLOADS = [
    "<script>window.hit=1</script>",
    "<img src=x onerror=window.hit=1>",
    '"><svg onload=window.hit=1>',
    "[link](javascript:window.hit=1)",
    "![image](https://attacker.example/pixel.png)",
    "<iframe srcdoc='<script>parent.hit=1</script>'></iframe>",
    "<a href=javascript:window.hit=1>click</a>",
    "<style>body{display:none}</style>",
    "<form action=https://attacker.example><button>go</button></form>",
    "\u202egpj.exe",
]
"""One of each kind; ``tests/core/test_markdown.py`` has many more."""


@pytest.fixture(scope="module")
def chats(site: Serving, talking: TalkingEngine) -> dict[str, str]:
    """The addresses of a finished chat, and of one that asks while others wait."""
    return fill(site, talking)


def fill(site: Serving, talking: TalkingEngine) -> dict[str, str]:
    """Let each page have something to show; return the addresses of ``chats``."""
    client = site.client()
    client.post("/api/chat-labels", {"name": "bug", "color": "#cc3b3b"})
    nightly = {"name": "nightly-tests", "cron": "0 3 * * 1-5", "prompt": "Run the slow tests."}
    client.post("/api/schedules", {**nightly, "zone": "Europe/Berlin"})
    client.post("/api/schedules", {**nightly, "name": "digest", "paused": True})
    add_mcp_servers(site)
    add_hooks(site)
    talking.expect("done")
    done = client.create_chat(prompt="done", title="A chat that is done")
    code = "```python\nprint(1)\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |"
    talking.say(
        "done",
        ToolUsed("read_file", "path=a.txt", "one\ntwo"),
        ReplyCompleted(f"# Done\n\nAll *is* `done`:\n\n1. one\n2. two\n\n{code}"),
    )
    client.messages(done)
    client.put(f"/api/chats/{done}/labels", {"labels": ["bug"]})
    talking.expect("ask")
    asks = client.create_chat(prompt="ask", title="A chat that asks")
    for text in ("one more", "and another"):
        client.post(f"/api/remote/chats/{asks}/queue", {"prompt": text})
    talking.say(
        "ask",
        ToolUsed("run_command", "command=pytest -q", "exit code 1\n3 failed"),
        ReplyDelta("Half a reply"),
        Question("outside", "write_file", "/etc/hosts", "It must be so."),
    )
    until(lambda: client.get("/api/chat/approvals")["approvals"])
    return {"done": f"/{done}", "asks": f"/{asks}"}


def add_mcp_servers(site: Serving) -> None:
    """Add two servers, and let the workspace name another."""
    administrator = site.administrator()
    docs = {"name": "docs", "url": "https://docs.example/mcp", "allow": ["get_*"]}
    administrator.post("/api/mcp-servers", docs)
    program = {"name": "shop", "command": ["npx", "-y", "shop"], "enabled": False}
    administrator.post("/api/mcp-servers", {**program, "env": {"TOKEN": "env:TOKEN"}})
    entry = {"mcpServers": {"lint": {"command": "node", "args": ["lint.mjs"]}}}
    (Path(site.settings.workspace) / ".mcp.json").write_text(json.dumps(entry))


def add_hooks(site: Serving) -> None:
    """Let the configuration and the workspace have hooks."""
    group = {"matcher": "Bash|Write", "hooks": [{"command": "./scripts/guard.py --strict"}]}
    content = json.dumps({"hooks": {"PreToolUse": [group], "Stop": [group]}})
    theirs = Path(site.settings.workspace) / ".claude" / "settings.json"
    theirs.parent.mkdir(exist_ok=True)
    for path in (Path(site.layout.hooks_settings), theirs):
        path.write_text(content)
        path.chmod(0o600)


@pytest.fixture(scope="module", params=[DESK, PHONE], ids=["desk", "phone"])
def reader(request: pytest.FixtureRequest, browser: Browser, site: Serving) -> Iterator[Person]:
    """An administrator at a desk or with a phone, whose pages note what breaks the policy."""
    with person(browser, site, size=request.param) as somebody:
        somebody.context.add_init_script(
            "addEventListener('securitypolicyviolation', (event) =>"
            " (window.reports ??= []).push(`${event.violatedDirective} ${event.blockedURI}`), true)"
        )
        yield somebody


@pytest.mark.parametrize("name", ALL)
def test_a_page_can_be_used_by_everybody_fits_its_width_and_breaks_no_policy(
    reader: Person, chats: dict[str, str], name: str, tmp_path: Path
) -> None:
    """Rows 37 to 39; its pictures are in the test's temporary folder."""
    page = open_page(reader, chats, name)
    check_accessibility(page, tmp_path / name)
    if page.viewport_size != {"width": PHONE[0], "height": PHONE[1]}:
        check_at_twice_the_size(page)
    assert page.evaluate("window.reports ?? []") == [], "the policy was broken"
    page.close()


def check_at_twice_the_size(page: Page) -> None:
    """Check that all is there at a zoom of 200 %: a window has half its pixels each way then."""
    page.set_viewport_size({"width": DESK[0] // 2, "height": DESK[1] // 2})
    expect(page.locator(BUSY)).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    cut = page.evaluate(
        """() => [...document.querySelectorAll('main :is(button, input, textarea, select)')]
          .filter((one) => one.checkVisibility())
          .filter((one) => {
            one.scrollIntoView({ block: 'center', inline: 'center' });
            const box = one.getBoundingClientRect();
            return box.top < -1 || box.bottom > innerHeight + 1 || box.right > innerWidth + 1;
          }).map((one) => one.outerHTML.slice(0, 120))"""
    )
    assert not cut


def open_overlay(page: Page, name: str) -> None:
    """Open what lies over a chat's page, or beside it."""
    if name == "palette":
        page.keyboard.press("Control+k")
        page.get_by_role("option").first.wait_for()
    elif name == "keys":
        page.get_by_label("Messages").focus()
        page.keyboard.press("?")
        page.get_by_role("dialog", name="Keys").wait_for()
    elif name == "menu":
        page.goto(urljoin(page.url, "/chats"))
        page.locator("main .row-menu").first.click()
        page.get_by_role("menuitem", name="Rename").wait_for()
    else:
        page.goto(f"{page.url}?panel={name}")
        page.locator(".panel .outline button, .panel dl").first.wait_for()


@pytest.mark.parametrize("name", ["palette", "keys", "menu", "outline", "details"])
def test_what_lies_over_a_page_can_be_used_by_everybody(
    reader: Person, chats: dict[str, str], name: str, tmp_path: Path
) -> None:
    """Row 38."""
    page = open_page(reader, chats, "asks")
    open_overlay(page, name)
    check_accessibility(page, tmp_path / name)
    page.close()


def open_page(somebody: Person, chats: dict[str, str], name: str) -> Page:
    """Open one of ``ALL`` and wait until it shows its data."""
    page = somebody.open("/login" if name == "login" else {**PAGES, **chats}[name])
    page.locator("h1").first.wait_for()
    if name != "login":
        wait_until_loaded(page)
    return page


def wait_until_loaded(page: Page) -> None:
    """Wait until the page shows the data that it has read."""
    expect(page.locator(".foot small")).to_contain_text("live", use_inner_text=False)
    expect(page.locator(BUSY)).to_have_count(0)


def test_no_text_of_others_becomes_code_anywhere(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 36: titles, prompts, replies whole and growing, tools, questions, queues, errors."""
    client = site.client()
    requests: list[str] = []
    ada.context.on("request", lambda request: requests.append(request.url))
    text = "\n\n".join(PAYLOADS)
    prompt = f"<b>all of them</b> {text}"
    talking.expect(prompt)
    chat = client.create_chat(prompt=prompt, title=" ".join(PAYLOADS)[:900])
    client.post(f"/api/remote/chats/{chat}/queue", {"prompt": text})
    page = ada.open(f"/{chat}")
    inbox = ada.open("/inbox")
    talking.say(
        prompt,
        ToolUsed(PAYLOADS[1], f"path={PAYLOADS[0]}", text),
        ReplyDelta(f"{text}\n\n"),
        Question("other", PAYLOADS[2], text, text),
    )
    for tab in (page, inbox):
        expect(tab.locator(".ask").last).to_be_visible()
    expect(page.locator(".growing .block").first).to_be_attached()
    asked = client.get("/api/chat/approvals")["approvals"][-1]
    client.post(f"/api/chat/{chat}/approvals/{asked['id']}", {"decision": "deny", "note": text})
    talking.say(prompt, ReplyCompleted(text))
    expect(page.locator(".growing")).to_have_count(0)
    page.get_by_role("button", name="More", exact=True).click()
    for tab in (page, inbox):
        assert tab.evaluate("window.hit") is None
        assert tab.locator("iframe, main script, main style, main form[action]").count() == 0
        assert not tab.evaluate(
            "[...document.querySelectorAll('a[href]')].some(one => /^javascript:/i.test(one.href))"
        )
    assert not [url for url in requests if not url.startswith(site.url)]


@pytest.mark.parametrize(
    "attempt",
    [
        "document.body.innerHTML = '<b>x</b>'",
        "document.createElement('script').text = '1'",
        "trustedTypes.createPolicy('other', {createHTML: (text) => text})",
        "trustedTypes.createPolicy('agentd-message', {createHTML: (text) => text})",
    ],
)
def test_a_script_of_the_page_can_add_no_other(ada: Person, attempt: str) -> None:
    """Row 37."""
    page = ada.open("/inbox")
    page.locator(".shell").wait_for()
    outcome = page.evaluate(
        f"() => {{ try {{ {attempt}; return 'done'; }} catch (error) {{ return error.name; }} }}"
    )
    assert outcome == "TypeError"
    ada.complaints.clear()


@pytest.mark.parametrize(("item", "path"), [("Analytics", "/analytics"), ("Trash", "/chats/trash")])
def test_a_phone_reaches_every_page_with_two_taps(
    browser: Browser, site: Serving, item: str, path: str
) -> None:
    with person(browser, site, size=PHONE) as somebody:
        page = somebody.open("/settings/you")
        more = page.get_by_role("button", name="More pages")
        more.tap()
        page.get_by_role("menuitem", name=item).tap()
        expect(page).to_have_url(f"{site.url}{path}")
        expect(more).to_have_attribute("aria-current", "true")


@pytest.mark.parametrize("name", ALL)
def test_a_page_is_used_by_the_keyboard_alone(
    ada: Person, chats: dict[str, str], name: str
) -> None:
    """Row 38: Tab comes to everything that can be pressed or filled, and shows where it is."""
    page = open_page(ada, chats, name)
    page.evaluate("document.activeElement.blur()")
    wanted = page.evaluate(FOCUSABLE)
    reached: set[int] = set()
    for _ in range(2 * wanted + 20):
        page.keyboard.press("Tab")
        number, is_shown = page.evaluate(FOCUSED)
        if number is not None:
            assert is_shown, page.evaluate("document.activeElement.outerHTML")
            reached.add(number)
        if len(reached) == wanted:
            break
    missed = "(all) => [...document.querySelectorAll('[data-number]')].map((one) => one.outerHTML)"
    assert len(reached) == wanted, [
        text[:120] for number, text in enumerate(page.evaluate(missed)) if number not in reached
    ]


FOCUSABLE = """() => {
  const all = [...document.querySelectorAll(
    'a[href], button, input, select, textarea, summary, [tabindex="0"]')];
  const usable = all.filter((one) => one.checkVisibility({ visibilityProperty: true })
    && !one.disabled && one.tabIndex >= 0 && one.type !== 'radio');
  usable.forEach((one, number) => one.dataset.number = number);
  return usable.length;
}"""
"""Numbers what can have the focus; of radio buttons only the chosen one is met by Tab."""
FOCUSED = """() => {
  const one = document.activeElement, style = getComputedStyle(one);
  const number = one.dataset.number;
  const box = one.closest('.composer, .find, .finder, .field');
  const shown = style.outlineStyle !== 'none' || style.boxShadow !== 'none' || box !== null;
  return [number === undefined ? null : Number(number), shown];
}"""
"""The number of what has the focus, and whether that is seen."""


def test_everything_is_reached_by_the_keyboard(ada: Person, chats: dict[str, str]) -> None:
    """Row 38."""
    page = ada.open(chats["done"])
    page.locator(".turn").first.wait_for()
    page.evaluate("document.activeElement.blur()")
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "document.activeElement.getAttribute('aria-label')"
                " || document.activeElement.textContent.trim().slice(0, 40)"
            )
        )
    for wanted in ("Skip to the page", "New chat", "More", "Messages", "Settings and account"):
        assert wanted in reached, reached
