"""Behind a reverse proxy, below a path of its own; also with https and a name of its own."""

import re
import ssl
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from agentd.agent.engine import Question, ReplyCompleted, ReplyDelta
from agentd.cli.main import main
from tests.support.daemon import Serving, until
from tests.support.reverse_proxy import CLIENT, NAME, PREFIX, reverse_proxy
from tests.ui.support import (
    ARGUMENTS,
    CHROMIUM,
    Person,
    TalkingEngine,
    find_prompt_box,
    get_service_worker,
    sign_in,
)
from tests.ui.test_live import BODIES, CLICK, HIDDEN

from playwright.sync_api import Browser, Page, Worker, expect  # isort: skip


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


@contextmanager
def foreign_host(folder: Path, port: int) -> Iterator[tuple[str, str]]:
    """A proxy with a certificate of ``agentd tls``: its address, and the hash of its public key."""
    made = ["--config", str(folder), "--state", str(folder / "state"), "tls", "--name", NAME]
    assert main(made) == 0
    certificate = folder / "tls" / "server.crt"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, folder / "tls" / "server.key")
    key = x509.load_pem_x509_certificate(certificate.read_bytes()).public_key()
    digest = hashes.Hash(hashes.SHA256())
    digest.update(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
    with reverse_proxy(port, tls=context) as url:
        yield url, b64encode(digest.finalize()).decode()


def test_everything_works_by_https_under_a_name_of_its_own_below_a_path(
    browser: Browser, tmp_path: Path
) -> None:
    """Row 21, too: the worker and its notifications have the addresses of the proxy."""
    talking = TalkingEngine()
    proxied = {"hosts": [NAME], "trusted_proxies": ["127.0.0.1"]}
    with (
        Serving(tmp_path, talking, **proxied) as serving,
        foreign_host(tmp_path / "proxy", serving.port) as (url, key),
    ):
        serving.administrator()
        asked = [f"--host-resolver-rules=MAP {NAME} 127.0.0.1"]
        # That this key is known stands for a device that trusts its authority.
        asked += [f"--ignore-certificate-errors-spki-list={key}"]
        chromium = browser.browser_type.launch(executable_path=CHROMIUM, args=[*ARGUMENTS, *asked])
        context = chromium.new_context()
        context.grant_permissions(["notifications"], origin=url)
        somebody = Person(context, url)
        try:
            use_foreign_host(somebody, serving, talking)
        finally:
            context.close()
            chromium.close()
        assert not somebody.complaints


def use_foreign_host(somebody: Person, serving: Serving, talking: TalkingEngine) -> None:
    """Sign in, follow a reply, be notified, and sign out."""
    url = somebody.url
    requests: list[str] = []
    somebody.context.on("request", lambda request: requests.append(request.url))
    chat = serving.client().create_chat(title="Behind a proxy")
    page = somebody.open(f"/{chat}?panel=details")
    expect(page).to_have_url(f"{url}/login?next=%2F{chat}%3Fpanel%3Ddetails")
    sign_in(page)
    expect(page).to_have_url(f"{url}/{chat}?panel=details")
    expect(page.locator(".foot small")).to_contain_text(f"live · {NAME}")
    (cookie,) = somebody.context.cookies()
    assert cookie["name"].startswith("__Host-")
    assert cookie["secure"]
    sessions = serving.administrator().get("/api/sessions")["sessions"]
    assert CLIENT in {one["address"] for one in sessions}
    follow_reply(page, talking)
    page.goto(f"{url}/settings/you#top")
    expect(page.get_by_role("heading", name="You", exact=True)).to_be_visible()
    worker = check_worker(somebody, page)
    check_notifications(page, worker, serving, talking)
    assert not [one for one in requests if not one.startswith(f"{url}/")]
    page.get_by_role("button", name="Settings and account").click()
    page.get_by_role("menuitem", name="Sign out", exact=True).click()
    expect(page).to_have_url(re.compile(re.escape(f"{url}/login")))
    assert somebody.context.cookies() == []


def follow_reply(page: Page, talking: TalkingEngine) -> None:
    """See a reply grow and end."""
    prompt = "through the proxy"
    talking.expect(prompt)
    find_prompt_box(page).fill(prompt)
    find_prompt_box(page).press("Enter")
    talking.say(prompt, ReplyDelta("it grows"))
    expect(page.locator(".growing")).to_contain_text("it grows")
    talking.say(prompt, ReplyCompleted("it grows, and ends"))
    expect(page.locator(".prose", has_text="it grows, and ends")).to_be_visible()


def check_worker(somebody: Person, page: Page) -> Worker:
    """Check that a worker rules the pages below the prefix, and keeps their files."""
    page.evaluate("navigator.serviceWorker.ready.then(() => 1)")
    worker = get_service_worker(somebody)
    assert worker.url == f"{somebody.url}/sw.js"
    assert worker.evaluate("registration.scope") == f"{somebody.url}/"
    page.reload()
    page.locator(".shell").wait_for()
    kept = page.evaluate(
        "caches.open('agentd-assets').then((one) => one.keys())"
        ".then((all) => all.map((one) => one.url))"
    )
    assert len(kept) > 15
    assert all(one.startswith(f"{somebody.url}/-/") for one in kept)
    return worker


SHOWN = """registration.getNotifications()
  .then((all) => all.map((one) => [one.data.url, one.icon]))"""


def check_notifications(
    page: Page, worker: Worker, serving: Serving, talking: TalkingEngine
) -> None:
    """A click opens the chat in the tab, and a button answers."""
    client, url = serving.client(), worker.url.removesuffix("/sw.js")
    page.evaluate(HIDDEN)
    for action in ("", "allow"):
        prompt, command = f"ask {action}", f"make click{action}"
        talking.expect(prompt)
        chat = client.create_chat(prompt=prompt, title=prompt)
        talking.say(prompt, Question("shell", "run_command", command))
        until(lambda command=command: any(command in one for one in worker.evaluate(BODIES)))
        assert [f"{PREFIX}/{chat}", f"{url}/icon-192.png"] in worker.evaluate(SHOWN)
        worker.evaluate(CLICK, [action, command])
        if not action:
            expect(page).to_have_url(f"{url}/{chat}")
            expect(page.get_by_role("region", name="A question of the agent")).to_be_visible()
            question = client.get(f"/api/chat/{chat}/approvals")["approvals"][0]
            client.post(f"/api/chat/{chat}/approvals/{question['id']}", {"decision": "deny"})
        until(lambda action=action: talking.answers[-1:] == [bool(action)])
        talking.say(prompt, ReplyCompleted("done"))
