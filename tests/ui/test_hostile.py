"""Text of others: sixty attempts in every place that shows text, and a model that means harm."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentd.agent.engine import Question, ReplyCompleted, ReplyDelta, ToolUsed, TurnFailed
from agentd.ui.assets import STATIC_FOLDER
from tests.core.test_markdown import PAYLOADS as ATTEMPTS
from tests.support.daemon import WORD, Client, Serving, until
from tests.ui.support import PHONE, Person, TalkingEngine, person
from tests.ui.test_every_page import wait_until_loaded

from playwright.sync_api import Browser, Page, Route, expect  # isort: skip

PAYLOADS = [text.replace("\0", "") for text in ATTEMPTS]
"""As they can be sent: NUL is refused."""
ALL = "\n\n".join(PAYLOADS)
NAMES = [name for name in PAYLOADS if not set(name) & set("/\0\n") and len(name.encode()) < 200]
"""Those that can be the name of a file."""
BRANCH = "fix/<img/src=x/onerror=alert(1)>"

WATCH = """
window.hits = [];
window.alert = (text) => hits.push(`alert ${text}`);
addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) => {
  hits.push(`${violatedDirective} ${blockedURI}`);
});
"""
WRONG = """() => [...document.querySelectorAll("*")].flatMap((node) => {
  const name = node.localName;
  const found = [];
  const never = ["iframe", "object", "embed", "base", "audio", "video", "math", "style"];
  if (never.includes(name)) found.push(name);
  if (name === "script" && !node.src.includes("/-/")) found.push("script");
  if (name === "img" && !/^blob:|[/]api[/]/.test(node.src)) found.push(`img ${node.src}`);
  if (name === "meta" && node.httpEquiv) found.push("meta");
  for (const { name: key, value } of node.attributes) {
    const loads = key === "style" && value.includes("url");
    if (loads || /^on|^srcdoc$/.test(key)) found.push(`${name} ${key}`);
    if (["href", "src", "action", "formaction", "xlink:href"].includes(key)) {
      const { protocol } = new URL(value, location.href);
      if (!/^(https?|mailto|blob):$/.test(protocol)) found.push(`${name} ${value}`);
    }
  }
  return found;
})"""

PAGES = [
    "/1" if path == "/:chatId" else path
    for path in re.findall(r'\{ path: "([^"]+)"', (STATIC_FOLDER / "pages.js").read_text())
    if not path.startswith(("/gateway", "/login"))
]
"""Every page of the agent and the settings; the first chat stands for all."""
assert not [path for path in PAGES if ":" in path], "say what to open"
DIALOGS = {
    "/1": ["Rename"],
    "/schedules": ["Edit", "Delete"],
    "/settings/labels": ["Edit", "Delete"],
    "/settings/mcp-servers": ["Edit", "Remove"],
    "/settings/configuration": ["Set a password", "Remove"],
}
"""The entries of a menu of the page that open dialogs."""
TEXTS = {
    *("title", "name", "description", "message", "details", "subject", "reason", "excerpt", "text"),
    *("content", "tool", "engine", "model", "supplier", "author", "branch", "note"),
    *("path", "file", "source", "label", "url", "version", "user", "line", "word", "command"),
    *("found", "expected", "problem", "held", "damage", "lastTool", "input", "outcome", "diff"),
    *("launch", "matcher", "decidedBy"),
    *("answeredBy", "waitsFor", "prompt", "group", "value", "default", "workspace"),
}
"""The fields of answers and events that hold text of people, programs or files."""

POISON_EVENTS = (
    (
        """(() => {
  const [attempts, texts] = [ATTEMPTS, new Set(TEXTS)];
  let count = 0;
  const next = () => attempts[count++ % attempts.length];
  const poison = (value, key) => Array.isArray(value) ? value.map((one) => poison(one, key))
    : value && typeof value === "object"
      ? Object.fromEntries(Object.entries(value).map(([name, one]) => [name, poison(one, name)]))
      : typeof value === "string" && value && texts.has(key) ? next() : value;
  const listen = EventSource.prototype.addEventListener;
  window.poisoned = 0;
  EventSource.prototype.addEventListener = function (kind, listener, ...options) {
    const hear = (event) => {
      if (!event.data) return listener.call(this, event);
      const [told, key] = [JSON.parse(event.data), /Delta$/.test(kind) ? "text" : ""];
      const data = JSON.stringify(poison(told, key));
      listener.call(this, new MessageEvent(kind, { data, lastEventId: event.lastEventId }));
      if (data !== event.data) window.poisoned++;
    };
    return listen.call(this, kind, hear, ...options);
  };
})();"""
    )
    .replace("ATTEMPTS", json.dumps(PAYLOADS))
    .replace("(TEXTS)", f"({json.dumps(sorted(TEXTS))})")
)


def run_git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, talking: TalkingEngine) -> Iterator[Serving]:
    """A daemon whose workspace, builds and bots have such texts."""
    folder = tmp_path_factory.mktemp("hostile")
    work = folder / "work"
    work.mkdir()
    identity = ("-c", f"user.name={PAYLOADS[3]}", "-c", "user.email=a@x.example")
    run_git(work, "init", "-q", "-b", BRANCH)
    for name in NAMES:
        (work / name).write_text(ALL)
    run_git(work, "add", "-A")
    run_git(work, *identity, "commit", "-qm", ALL)
    for name in NAMES[:20]:
        (work / name).write_text(f"changed {ALL}")
    (folder / "config").mkdir()
    (folder / "said.txt").write_text("".join(f"a.c:1:1: error: {text}\n" for text in PAYLOADS))
    said = folder / "said.txt"
    (folder / "config" / "builds.yml").write_text(f"builds:\n  says: {{command: [cat, {said}]}}\n")
    (folder / "config" / "deployments.yml").write_text(
        f"deployments:\n  says: {{command: [cat, {said}], restart: never}}\n"
    )
    bots = [
        {"id": f"bot{number}", "title": text[:100], "enabled": False, "token": "env:T"}
        for number, text in enumerate(PAYLOADS)
    ]
    named = {f"s{number}": {"command": text} for number, text in enumerate(PAYLOADS)}
    (work / ".mcp.json").write_text(json.dumps({"mcpServers": {**named, ALL[:400]: {}}}))
    (folder / "config" / "bots.yml").write_text(json.dumps({"format": 1, "bots": bots}))
    (folder / "config" / "bots.yml").chmod(0o600)
    with Serving(folder, talking, workspace=str(work)) as serving:
        client = serving.client()
        client.post("/api/build/trigger/says", None)
        client.post("/api/deploy/start/says", None)
        until(lambda: client.get("/api/build/status/says")["ended"])
        client.create_chat(prompt="the first", title="The first")
        client.post("/api/chat-labels", {"name": "bug", "color": "#cc3b3b"})
        client.post("/api/schedules", {"name": "nightly", "cron": "0 3 * * *", "prompt": "Run."})
        docs = {"name": "docs", "url": "https://docs.example/mcp"}
        administrator = serving.administrator()
        administrator.post("/api/mcp-servers", docs)
        administrator.post("/api/users", {"name": "bob", "role": "viewer", "password": WORD})
        yield serving


@pytest.fixture
def victim(ada: Person, site: Serving) -> Iterator[Person]:
    """An administrator, for whom no script of others runs and no request leaves."""
    asked: list[str] = []
    ada.context.add_init_script(WATCH)
    ada.context.on("request", lambda request: asked.append(request.url))
    yield ada
    for page in ada.context.pages:
        check_page(page)
    known = ("/-/", "/api/", "/sw.js", "/icon", "/manifest.webmanifest")
    addresses = tuple(PAGES[1:])
    for url in asked:
        path = url.removeprefix(site.url)
        assert path != url or url.startswith("blob:"), url
        assert path == "/" or path[1:2].isdigit() or path.startswith((*known, *addresses)), path


def check_page(page: Page) -> None:
    """Nothing of what is shown runs, or could."""
    assert page.evaluate("window.hits") == []
    assert page.evaluate(WRONG) == []


def test_there_are_sixty_attempts_and_many_can_be_names_of_files() -> None:
    assert len(set(PAYLOADS)) >= 60
    assert len(NAMES) > 20


def test_a_chat_shows_them_all_as_text(
    victim: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 36: title, prompt, queue, steps, question, note, the reply that grows and is done."""
    client = site.client()
    prompt = f"all of them\n\n{ALL}"
    talking.expect(prompt)
    chat = client.create_chat(prompt=prompt, title=" ".join(PAYLOADS)[:1000])
    for text in PAYLOADS[:10]:
        client.post(f"/api/remote/chats/{chat}/queue", {"prompt": text})
    page, inbox = victim.open(f"/{chat}"), victim.open("/inbox")
    diff = "".join(f"+{text}\n" for text in PAYLOADS if "\n" not in text)
    for text in PAYLOADS:
        talking.say(prompt, ToolUsed(text[:80] or "x", f"path={text}", f"{text}\nthe rest"))
    talking.say(
        prompt,
        ToolUsed(
            "edit", PAYLOADS[3], ALL, diff=f"--- a/x\n+++ b/{PAYLOADS[3]}\n@@ -0,0 +1 @@\n{diff}"
        ),
        ReplyDelta(f"{ALL}\n\n{PAYLOADS[3]}"),
        Question("shell", PAYLOADS[3], ALL, ALL),
    )
    for tab in (page, inbox):
        expect(tab.locator(".ask").last).to_be_visible()
        check_page(tab)
    asked = client.get("/api/chat/approvals")["approvals"][-1]
    client.post(
        f"/api/chat/{chat}/approvals/{asked['id']}", {"decision": "deny", "note": ALL[:900]}
    )
    talking.say(prompt, ReplyCompleted(f"{ALL}\n\n[[{PAYLOADS[3]}|{PAYLOADS[0]}]]"))
    expect(page.locator(".growing")).to_have_count(0)
    expect(page.locator(".choices .btn")).to_have_text(PAYLOADS[3])
    page.get_by_role("button", name="Worked").click()
    for number in range(10):
        page.locator("button.step").nth(number).click()
    page.get_by_role("button", name="More", exact=True).click()
    check_page(page)
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("onerror=alert")
    expect(page.get_by_role("option").first).to_be_visible()
    check_page(page)


def test_a_failure_shows_them_as_text(
    victim: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 36."""
    talking.says = lambda _: [TurnFailed(ALL)]
    try:
        chat = site.client().create_chat(prompt="fail", title="Fails")
        page = victim.open(f"/{chat}")
        expect(page.locator(".failure")).to_contain_text(PAYLOADS[3])
    finally:
        talking.says = TalkingEngine().says


@pytest.mark.parametrize("path", ["builds?name=says", "deployments?name=says"])
def test_output_of_programs_shows_them_as_text(victim: Person, path: str) -> None:
    """Row 36."""
    page = victim.open(f"/workspace/{path}")
    wait_until_loaded(page)
    expect(page.get_by_text(PAYLOADS[3]).first).to_be_attached()


def test_files_and_commits_show_them_as_text(victim: Person) -> None:
    """Row 36: names of files, what is in them, branches, authors, messages of commits."""
    page = victim.open("/workspace/changes")
    wait_until_loaded(page)
    expect(page.get_by_text(BRANCH).first).to_be_visible()
    page.locator("button.file").first.click()
    expect(page.locator(".code").first).to_contain_text("changed")
    check_page(page)
    page.goto(f"{page.url.rpartition('/')[0]}/history")
    wait_until_loaded(page)
    page.locator(".commit").first.click()
    expect(page.locator(".commit-head")).to_contain_text(PAYLOADS[0])
    check_page(page)
    page.goto(f"{page.url.rpartition('/')[0]}/files")
    wait_until_loaded(page)
    page.locator("a.entry").last.click()
    expect(page.locator(".code").first).to_contain_text("alert(1)")


@pytest.mark.parametrize("path", PAGES)
def test_no_page_trusts_what_the_daemon_answers(victim: Person, path: str) -> None:
    """Rows 36 and 37: each text of each answer is an attempt, whatever the daemon would refuse."""
    victim.context.route("**/api/**", poison)
    page = victim.open(path)
    wait_until_loaded(page)
    menus = page.locator("main [aria-haspopup=menu]:not([disabled])")
    if path in DIALOGS:
        expect(menus.first).to_be_visible()
    for menu in menus.all()[:3]:
        if menu.is_visible():
            menu.click()
            expect(page.get_by_role("menu")).to_be_visible()
            check_page(page)
            page.keyboard.press("Escape")
    at = 1 if path == "/settings/configuration" else 0  # somebody else, and not the person
    for name in DIALOGS.get(path, []):
        menu = page.get_by_role("button", name="More") if path == "/1" else menus.nth(at)
        menu.click()
        page.get_by_role("menuitem", name=name).click()
        expect(page.get_by_role("dialog")).to_be_visible()
        check_page(page)
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Settings and account").click()
    check_page(page)


def poison(route: Route) -> None:
    """Answer with attempts instead of texts."""
    if route.request.method != "GET" or "/api/events" in route.request.url:
        return route.continue_()
    answer = route.fetch()
    if "json" not in answer.headers.get("content-type", ""):
        return route.fulfill(response=answer)
    return route.fulfill(response=answer, json=replace_texts(answer.json(), iter(PAYLOADS * 99)))


def test_no_page_trusts_what_the_daemon_tells_by_events(
    victim: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 36: chats, questions, queues, replies that grow, labels, schedules, jobs."""
    victim.context.add_init_script(POISON_EVENTS)
    client, prompt = site.client(), "told by events"
    talking.expect(prompt)
    chat = client.create_chat(prompt=prompt, title="Told by events")
    paths = (f"/{chat}", "/inbox", "/schedules", "/settings/labels", "/workspace/builds?name=says")
    pages = [victim.open(path) for path in paths]
    for page in pages:
        wait_until_loaded(page)
    client.post(f"/api/remote/chats/{chat}/queue", {"prompt": "waits"})
    client.put(f"/api/chats/{chat}", {"title": "Another title"})
    client.post("/api/chat-labels", {"name": "told", "color": "#3366cc"})
    client.post("/api/schedules", {"name": "told", "cron": "0 3 * * *", "prompt": "Run."})
    client.post("/api/build/trigger/says", None)
    talking.say(prompt, ToolUsed("read_file", "path=a.txt", "one"), ReplyDelta("it grows"))
    expect(pages[0].locator(".growing")).to_be_attached()
    talking.say(prompt, Question("shell", "run_command", "make"))
    for page in pages[:2]:
        expect(page.locator(".ask").last).to_be_visible()
    for page in pages:
        check_page(page)
    assert sum(page.evaluate("window.poisoned") for page in pages) > 5
    asked = client.get(f"/api/chat/{chat}/approvals")["approvals"][-1]
    client.post(f"/api/chat/{chat}/approvals/{asked['id']}", {"decision": "deny"})
    talking.say(prompt, ReplyCompleted("done"))


@pytest.mark.parametrize("path", [path for path in PAGES if path != "/settings/you"])
def test_no_page_trusts_why_something_failed(victim: Person, path: str) -> None:
    """Rows 36 and 37."""
    error = {"error": "Unavailable", "message": PAYLOADS[3], "details": ALL}

    def refuse(route: Route) -> None:
        if "/api/session" in route.request.url or "/api/events" in route.request.url:
            return route.continue_()
        return route.fulfill(status=503, json=error)

    victim.context.route("**/api/**", refuse)
    page = victim.open(path)
    expect(page.get_by_text(PAYLOADS[3]).first).to_be_attached()
    check_page(page)


def replace_texts(value: Any, attempts: Iterator[str], key: str = "") -> Any:
    """Return the answer with attempts instead of its texts."""
    if isinstance(value, dict):
        return {name: replace_texts(inner, attempts, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [replace_texts(inner, attempts, key) for inner in value]
    return next(attempts) if isinstance(value, str) and value and key in TEXTS else value


HARMFUL = {
    "one line": "x" * 900_000,
    "words without end": "word " * 180_000,
    "quotes in quotes": "> " * 50_000 + "x",
    "lists in lists": "".join(f"{'  ' * depth}- x\n" for depth in range(600)),
    "brackets": "[" * 100_000 + "](x)" * 1000,
    "a table": "|" + "a|" * 3000 + "\n|" + "-|" * 3000 + "\n" + ("|" + "b|" * 3000 + "\n") * 20,
    "small blocks": "a\n\n" * 100_000,
    "an open fence": "```python\n" + "print(1)\n\n" * 90_000,
    "right to left": "\u202e\u2066\u202dtxet eht si sihT\u2069 \u200f\u061c" * 1000,
    "marks on marks": "Z" + "\u0300\u0301\u0302\u0338" * 20_000,
}


@pytest.mark.parametrize("kind", HARMFUL)
def test_a_reply_that_means_harm_leaves_the_page_in_order(
    browser: Browser, site: Serving, talking: TalkingEngine, kind: str
) -> None:
    """Row 36: on a phone, while it grows and when it is there."""
    text, client, prompt = HARMFUL[kind], site.client(), f"harm: {kind}"
    talking.expect(prompt)
    chat = client.create_chat(prompt=prompt, title=kind)
    with person(browser, site, size=PHONE) as somebody:
        page = somebody.open(f"/{chat}")
        expect(page.locator(".running")).to_be_visible()
        for start in range(0, len(text), 100_000):
            talking.say(prompt, ReplyDelta(text[start : start + 100_000]))
        expect(page.locator(".growing")).to_be_visible()
        check_order(page)
        talking.say(prompt, ReplyCompleted(text))
        expect(page.locator(".growing")).to_have_count(0)
        expect(page.locator(".item-assistant")).to_have_count(1)
        check_order(page)


def test_a_reply_of_5_mb_is_stopped_and_says_so(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 36."""
    prompt = "five megabytes"
    talking.expect(prompt)
    page = ada.open(f"/{site.client().create_chat(prompt=prompt, title=prompt)}")
    expect(page.locator(".running")).to_be_visible()
    talking.say(prompt, *[ReplyDelta("word " * 20_000) for _ in range(50)])
    expect(page.locator(".failure")).to_contain_text("more than 1,000,000 characters")
    expect(page.get_by_role("button", name="Show all as plain text")).to_be_visible()


def check_order(page: Page) -> None:
    """Check that a field can be used, nothing is displaced, and the document has a sane size."""
    draft = page.get_by_label("Prompt", exact=True)
    draft.fill("still here")
    expect(draft).to_have_value("still here")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    assert page.locator("*").count() < 30_000
    title = page.get_by_role("heading", level=1)
    assert title.evaluate("(node) => getComputedStyle(node).direction") == "ltr"


def test_a_title_that_runs_backwards_turns_nothing_beside_it(ada: Person, site: Serving) -> None:
    """Row 36: marks of direction end with the text that has them."""
    client: Client = site.client()
    client.create_chat(title="safe.txt")
    chat = client.create_chat(title="\u202egpj.exe")
    page = ada.open(f"/{chat}")
    row = page.locator(".chats .item", has_text="gpj.exe").first
    left, right = row.locator(".name").bounding_box(), row.locator("time").bounding_box()
    assert left["x"] + left["width"] <= right["x"]
    heading = page.get_by_role("heading", level=1)
    assert heading.evaluate("(node) => getComputedStyle(node).direction") == "ltr"


@pytest.mark.parametrize("how", ["full", "forbidden"])
def test_a_browser_that_keeps_nothing_loses_no_prompt(ada: Person, site: Serving, how: str) -> None:
    """Storage that is full or forbidden: the page works all the same."""
    fill = """for (let size = 2 ** 22; size; size >>= 1) {
        const text = "x".repeat(size);
        try { for (let n = 0; ; n++) localStorage.setItem(`x${size} ${n}`, text); } catch {}
      }"""
    forbid = "Storage.prototype.setItem = () => { throw new DOMException('no', 'SecurityError'); };"
    ada.context.add_init_script(fill if how == "full" else forbid)
    chat = site.client().create_chat(title=f"Storage {how}")
    page = ada.open(f"/{chat}")
    draft = page.get_by_label("Prompt", exact=True)
    draft.fill(f"written without storage, {how}")
    draft.press("Enter")
    expect(page.locator(".prose", has_text=f"echo: written without storage, {how}")).to_be_visible()
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("menuitemradio", name="Details").click()
    page.get_by_role("link", name="agentd").click()
    expect(page.get_by_role("heading", name="What should the agent do?")).to_be_visible()
