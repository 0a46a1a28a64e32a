"""Every page in Firefox, driven over its own WebDriver BiDi: no other program is needed."""

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Self

import pytest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from agentd.agent.engine import ReplyCompleted
from tests.support.daemon import PATIENCE, WORD, Serving, until
from tests.support.paths import REPOSITORY
from tests.ui.gateway_site import GatewaySite, open_gateway
from tests.ui.support import TalkingEngine

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
pytestmark = pytest.mark.skipif(not FIREFOX, reason="needs: apt-get install firefox-esr")

SIGN_IN = """
  const set = (label, text) => {
    const input = [...document.querySelectorAll("label")]
      .find((one) => one.textContent.startsWith(label)).querySelector("input");
    input.value = text;
  };
  set("Name", NAME); set("Password", PASSWORD);
  document.querySelector("form").requestSubmit();
"""


HEAR_REPORTS = """() => {
  window.reports = [];
  document.addEventListener("securitypolicyviolation", (event) => {
    reports.push(`${event.violatedDirective} ${event.blockedURI}`);
  });
}"""
"""Keep what the page's content security policy reports, from before its first script."""
PAGES = re.findall(r'\{ path: "([^"]+)"', (REPOSITORY / "agentd/ui/static/pages.js").read_text())


class Firefox:
    """A tab of a browser; ``run`` is a function's body in it."""

    def __init__(self, connection: WebSocketClientConnection) -> None:
        self._connection = connection
        self._numbers = count(1)
        self.complaints: list[str] = []
        """What the browser complained of: errors of scripts, and what pages wrote as errors."""
        self._tab = ""

    async def begin(self) -> Self:
        """Open a tab."""
        await self.send("session.new", capabilities={})
        self._tab = (await self.send("browsingContext.create", type="tab"))["context"]
        await self.send("session.subscribe", events=["log.entryAdded"])
        await self.send("script.addPreloadScript", functionDeclaration=HEAR_REPORTS)
        return self

    async def send(self, method: str, **params: Any) -> Any:
        """Send a command, and return its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        await self._connection.write_message(json.dumps(message))
        while True:
            text = await asyncio.wait_for(self._connection.read_message(), PATIENCE)
            assert text, "Firefox has ended"
            answer = json.loads(text)
            if answer.get("method") == "log.entryAdded":
                self._hear(answer["params"])
            if answer.get("id") == number:
                assert answer["type"] == "success", answer
                return answer["result"]

    def _hear(self, entry: dict[str, Any]) -> None:
        # What is still loading when another page is opened is told as an error, too.
        if entry["level"] == "error" and not str(entry["text"]).startswith("Failed to load"):
            self.complaints.append(str(entry["text"]))

    async def open(self, url: str) -> None:
        """Go to an address."""
        await self.send("browsingContext.navigate", context=self._tab, url=url, wait="complete")

    async def run(self, body: str, **values: object) -> Any:
        """Run this with these constants; the answer is what it returns, as JSON."""
        given = "".join(f"const {name} = {json.dumps(value)};" for name, value in values.items())
        inner = f"(() => {{ {body} }})()"
        answer = await self.send(
            "script.callFunction",
            functionDeclaration=f"() => {{ {given} return JSON.stringify({inner}); }}",
            awaitPromise=True,
            target={"context": self._tab},
        )
        assert answer["type"] == "success", answer
        found = answer["result"].get("value")
        return json.loads(found) if found else None

    async def wait(self, expression: str, **values: object) -> Any:
        """Return once this is true in the page."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while not (found := await self.run(f"return {expression};", **values)):
            assert asyncio.get_running_loop().time() < deadline, expression
            await asyncio.sleep(0.02)
        return found

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other, where the focus is."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        source = {"type": "key", "id": "keyboard", "actions": actions}
        await self.send("input.performActions", context=self._tab, actions=[source])


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Firefox, and where it listens for commands."""
    profile = tmp_path_factory.mktemp("firefox")
    log = profile / "log"
    with log.open("wb") as errors:
        child = subprocess.Popen(
            [FIREFOX, "--headless", "--remote-debugging-port", "0", "--profile", str(profile)],
            stderr=errors,
            stdout=errors,
            env={"HOME": str(profile), "PATH": "/usr/bin:/bin", "MOZ_DISABLE_CONTENT_SANDBOX": "1"},
        )
        try:
            listens = re.compile(r"WebDriver BiDi listening on (ws://\S+)")
            found = until(lambda: listens.search(log.read_text(errors="replace")))
            yield f"{found[1]}/session"
        finally:
            child.terminate()
            child.wait(PATIENCE)


@asynccontextmanager
async def open_firefox(address: str) -> AsyncIterator[Firefox]:
    """A session with a tab."""
    connection = await websocket_connect(address, max_message_size=2**24)
    tab = Firefox(connection)
    try:
        yield await tab.begin()
    finally:
        await tab.send("session.end")
        connection.close()
        while await asyncio.wait_for(connection.read_message(), PATIENCE) is not None:
            pass  # until the other side has closed, too


def test_one_signs_in_sends_a_prompt_and_edits_the_queue(program: str, tmp_path: Path) -> None:
    engine = TalkingEngine()
    with Serving(tmp_path, engine) as site:
        site.administrator()
        asyncio.run(use_pages(program, site, engine))
        client = site.client()
        prompts = [one.prompt for one in engine.given]
        assert prompts == ["hello from Firefox", "wait", "the second, edited"]
        assert len(client.get("/api/chats")["chats"]) == 1


async def use_pages(address: str, site: Serving, engine: TalkingEngine) -> None:
    """Do all that a person does."""
    draft = "document.querySelector('textarea.draft')"
    send = "document.querySelector('.send').click()"  # without a mouse, Enter begins a line
    async with open_firefox(address) as tab:
        await tab.open(f"{site.url}/login?next=/")
        await tab.wait("Boolean(document.querySelector('form input'))")
        await tab.run(SIGN_IN, NAME="ada", PASSWORD=WORD)
        await tab.wait(f"Boolean({draft})")
        await tab.run(f"{draft}.focus()")
        await tab.press(*"hello from Firefox")
        await tab.run(send)
        await tab.wait("document.body.textContent.includes('echo: hello from Firefox')")
        chat = await tab.run("return Number(location.pathname.slice(1))")
        engine.expect("wait")
        for prompt in ("wait", "the second"):
            await tab.run(f"{draft}.focus()")
            await tab.press(*prompt)
            await tab.wait(f"{draft}.value === TEXT", TEXT=prompt)
            await tab.run(send)
            await tab.wait(f"{draft}.value === ''")
        queued = "document.querySelector('.queue .wait:not(.sending) .text')?.textContent.trim()"
        await tab.wait(f"{queued} === 'the second'")
        await tab.run("document.activeElement.blur(); document.querySelector('.scroll').focus()")
        await tab.press("e")
        await tab.wait("document.activeElement.matches('.edit textarea')")
        await tab.press("\ue010", *", edited")
        await tab.run(
            "[...document.querySelectorAll('.edit button')]"
            ".find((one) => one.textContent.includes('Save')).click()"
        )
        await tab.wait("document.querySelector('.queue .text')?.textContent.includes('edited')")
        client, edited = site.client(), ["the second, edited"]  # shown before the daemon has it
        await asyncio.to_thread(
            until, lambda: [one["prompt"] for one in client.prompts(chat)] == edited
        )
        await asyncio.to_thread(engine.say, "wait", ReplyCompleted("It waited."))
        await tab.wait("document.body.textContent.includes('echo: the second, edited')")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewaySite]:
    with open_gateway(tmp_path_factory.mktemp("gateway")) as opened:
        assert opened.ask().status_code == 200
        opened.serving.client().create_chat(prompt="hello", title="A chat")
        subprocess.run(["git", "init", "-q", opened.serving.settings.workspace], check=True)
        yield opened


def test_every_page_opens_without_an_error(program: str, gateway: GatewaySite) -> None:
    """Rows 37 and 38."""
    assert len(PAGES) > 30
    request = gateway.requests()[0]["id"]
    named = {
        "/:chatId": "/1",
        "/gateway/requests/:id": f"/gateway/requests/{request}",
        "/gateway/channels/:name": "/gateway/channels/chat",
        "/gateway/models/:name": "/gateway/models/by-chat",
        "/gateway/keys/:id": f"/gateway/keys/{gateway.ids['laptop']}",
        "/gateway/reports/:name": "/gateway/reports/latency",
    }
    paths = [named.get(path, path) for path in PAGES]
    assert not [path for path in paths if ":" in path], "say what to open"
    assert not asyncio.run(find_faults(program, gateway.serving.url, paths))


async def find_faults(address: str, url: str, paths: list[str]) -> list[str]:
    """Open each page as an administrator; return what is wrong with it."""
    faults: list[str] = []
    heading = "document.querySelector('main h1')?.textContent.trim() || ''"
    async with open_firefox(address) as tab:
        await tab.open(f"{url}/login?next=/")
        await tab.wait("Boolean(document.querySelector('form input'))")
        await tab.run(SIGN_IN, NAME="ada", PASSWORD=WORD)
        await tab.wait("Boolean(document.querySelector('.shell'))")
        for path in paths:
            await tab.open(f"{url}{path}")
            await tab.wait(f"{heading} && !document.querySelector('.skeleton')")
            if await tab.run(f"return {heading}") in (
                "There is no such page",
                "This page could not be loaded",
            ):
                faults.append(f"{path}: is not shown")
            failure = await tab.run(
                "return document.querySelector('.empty[role=alert]')?.innerText"
            )
            if failure:
                faults.append(f"{path}: {failure}")
            faults += [f"{path}: {report}" for report in await tab.run("return reports")]
            faults += [f"{path}: {complaint}" for complaint in tab.complaints]
            tab.complaints.clear()
    return faults
