"""Live events in the browser: one stream for all tabs, and nothing missed when it breaks."""

from functools import partial
from pathlib import Path

from agentd.agent.engine import Question, ReplyCompleted, ReplyDelta
from tests.support.daemon import Serving, until
from tests.ui.support import Person, TalkingEngine, get_service_worker, hold_requests, person

from playwright.sync_api import Browser, Page, Route, expect  # isort: skip


def test_seven_tabs_share_one_stream_and_another_takes_it_over(ada: Person, site: Serving) -> None:
    """Rows 11 and 12."""
    opened: list[str] = []
    ada.context.on(
        "request", lambda request: "/api/events" in request.url and opened.append(request.url)
    )
    chat = site.client().create_chat(title="Shared")
    pages = [ada.open(f"/{chat}") for _ in range(7)]
    for page in pages:
        expect(page.locator(".foot small")).to_contain_text("live")
    assert len(opened) == 1
    pages[0].close()
    until(lambda: pages[1].evaluate("1") and len(opened) == 2)
    assert "since=" in opened[1]
    site.client().put(f"/api/chats/{chat}", {"title": "Heard by all"})
    for page in pages[1:]:
        expect(page.get_by_role("heading", name="Heard by all")).to_be_visible()
    assert len(opened) == 2


def test_what_happened_while_the_daemon_was_away_is_shown_after_it_and_once(
    browser: Browser, tmp_path: Path
) -> None:
    """Rows 10 and 16."""
    engine = TalkingEngine()
    with Serving(tmp_path, engine) as serving, person(browser, serving) as somebody:
        port = serving.port
        client = serving.client()
        chat = client.create_chat(title="Interrupted", prompt="hello")
        client.messages(chat)
        page = somebody.open(f"/{chat}")
        expect(page.locator(".prose", has_text="echo: hello")).to_be_visible()
        serving.stop()
        serving.join()
        expect(page.get_by_text("agentd does not answer · trying again")).to_be_visible()
        page.get_by_label("Prompt", exact=True).fill("while you were away")
        page.get_by_label("Prompt", exact=True).press("Enter")
        expect(page.locator(".sending")).to_contain_text("while you were away")
        page.get_by_label("Prompt", exact=True).fill("a draft")
        with Serving(tmp_path, engine, port=port):
            expect(page.locator(".prose", has_text="echo: while you were away")).to_be_visible()
            expect(page.locator(".banner")).to_have_count(0)
            assert [one.prompt for one in engine.given] == ["hello", "while you were away"]
            expect(page.locator(".turn")).to_have_count(2)
            expect(page.get_by_label("Prompt", exact=True)).to_have_value("a draft")
        somebody.complaints.clear()


def test_a_prompt_whose_answer_was_lost_is_queued_once(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 16."""
    chat = site.client().create_chat(title="Lost answer")
    page = ada.open(f"/{chat}")
    expect(page.get_by_label("Prompt", exact=True)).to_be_visible()
    lost: list[str] = []

    def lose(route: Route) -> None:
        """The daemon has it, but the answer does not arrive: the first time."""
        if lost:
            route.continue_()
            return
        lost.append(route.request.headers["idempotency-key"])
        route.fetch()
        route.abort()

    page.route("**/send", lose)
    page.get_by_label("Prompt", exact=True).fill("only once, please")
    page.get_by_label("Prompt", exact=True).press("Enter")
    expect(page.locator(".prose", has_text="echo: only once, please")).to_be_visible()
    expect(page.locator(".sending")).to_have_count(0)
    assert len([one for one in talking.given if one.prompt == "only once, please"]) == 1


def test_a_prompt_that_waits_to_be_sent_outlives_a_reload(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 16."""
    chat = site.client().create_chat(title="Outbox")
    page = ada.open(f"/{chat}")
    expect(page.get_by_label("Prompt", exact=True)).to_be_visible()
    page.route("**/send", lambda route: route.abort())
    page.get_by_label("Prompt", exact=True).fill("kept for later")
    page.get_by_label("Prompt", exact=True).press("Enter")
    expect(page.locator(".sending")).to_contain_text("kept for later")
    page.unroute("**/send")
    page.reload()
    expect(page.locator(".prose", has_text="echo: kept for later")).to_be_visible()
    assert len([one for one in talking.given if one.prompt == "kept for later"]) == 1


def test_a_stream_that_breaks_in_the_middle_of_a_reply_loses_and_doubles_nothing(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 10."""
    prompt = "a reply over a broken line"
    talking.expect(prompt)
    chat = site.client().create_chat(prompt=prompt)
    page = ada.open(f"/{chat}")
    talking.say(prompt, ReplyDelta("one "))
    expect(page.locator(".growing .tail")).to_have_text("one")
    page.context.set_offline(True)
    talking.say(prompt, ReplyDelta("two "))
    page.context.set_offline(False)
    talking.say(prompt, ReplyDelta("three"))
    talking.say(prompt, ReplyCompleted("one two three"))
    expect(page.locator(".prose", has_text="one two three")).to_have_count(1)
    expect(page.locator(".growing")).to_have_count(0)


def test_a_connection_over_which_nothing_comes_any_more_is_told(ada: Person, site: Serving) -> None:
    """Row 16: neither the daemon nor the network says so, as when its machine sleeps."""
    ada.context.clock.install()
    page = ada.open(f"/{site.client().create_chat(title='Silence')}")
    expect(page.locator(".foot small")).to_contain_text("live")
    held = hold_requests(page, "**/api/events*")
    page.clock.run_for(26_000)
    until(lambda: page.evaluate("1") and held)
    page.clock.run_for(3_000)
    expect(page.get_by_text("agentd does not answer · trying again")).to_be_visible()
    held[0].continue_()
    expect(page.locator(".banner")).to_have_count(0)
    expect(page.locator(".foot small")).to_contain_text("live")


def test_the_same_chat_in_two_browsers_agrees(browser: Browser, ada: Person, site: Serving) -> None:
    """Row 8, on two devices."""
    chat = site.client().create_chat(title="On two devices")
    page = ada.open(f"/{chat}")
    with person(browser, site) as other:
        there = other.open(f"/{chat}")
        there.get_by_label("Prompt", exact=True).fill("from the phone")
        there.get_by_label("Prompt", exact=True).press("Enter")
        expect(page.locator(".prose", has_text="echo: from the phone")).to_be_visible()


def test_the_worker_keeps_the_files_of_this_version_and_no_data(
    browser: Browser, site: Serving
) -> None:
    with person(browser, site, workers=True) as somebody:
        page = somebody.open("/inbox")
        page.locator(".shell").wait_for()
        page.evaluate("navigator.serviceWorker.ready.then(() => 1)")
        page.reload()
        page.locator(".shell").wait_for()
        kept = page.evaluate(
            "caches.open('agentd-assets').then((one) => one.keys())"
            ".then((all) => all.map((one) => new URL(one.url).pathname))"
        )
        assert len(kept) > 15
        assert all(path.startswith("/-/") for path in kept)


def test_a_page_is_shown_where_there_is_no_room_to_keep_its_files(
    browser: Browser, site: Serving
) -> None:
    with person(browser, site, workers=True) as somebody:
        page = somebody.open("/inbox")
        page.evaluate("navigator.serviceWorker.ready.then(() => 1)")
        full = {"origin": site.url, "quotaSize": 1}
        somebody.context.new_cdp_session(page).send("Storage.overrideQuotaForOrigin", full)
        page.goto(f"{site.url}/settings/labels")
        expect(page.get_by_role("button", name="Add a label").first).to_be_visible()
        assert page.evaluate("navigator.serviceWorker.controller !== null")
        assert page.evaluate("caches.open('agentd-assets').then((one) => one.keys())") == []


def test_files_of_another_agentd_of_the_same_origin_are_kept(
    browser: Browser, site: Serving
) -> None:
    with person(browser, site, workers=True) as somebody:
        page = somebody.open("/inbox")
        page.evaluate("navigator.serviceWorker.ready.then(() => 1)")
        page.evaluate(
            "Promise.all([caches.open('agentd-assets'), fetch('/icon.svg')])"
            ".then(([cache, icon]) => cache.put('https://elsewhere.example/-/ab/main.js', icon))"
        )
        page.reload()
        page.locator(".shell").wait_for()
        kept = page.evaluate(
            "caches.open('agentd-assets').then((one) => one.keys())"
            ".then((all) => all.map((one) => new URL(one.url).hostname))"
        )
        assert len(kept) > 15
        assert "elsewhere.example" in kept


HIDDEN = "Object.defineProperty(document, 'hidden', { configurable: true, get: () => true })"


def open_hidden_inbox(somebody: Person, site: Serving) -> Page:
    """Open a page that may notify and that nobody looks at."""
    somebody.context.grant_permissions(["notifications"], origin=site.url)
    page = somebody.open("/inbox")
    page.locator(".shell").wait_for()
    page.evaluate("navigator.serviceWorker.ready.then(() => 1)")
    page.evaluate(HIDDEN)
    return page


def list_notifications(page: Page) -> list[str]:
    """List the titles and texts of the notifications that are shown."""
    found: list[str] = page.evaluate(
        "navigator.serviceWorker.ready.then((worker) => worker.getNotifications())"
        ".then((all) => all.map((one) => `${one.title}: ${one.body}`))"
    )
    return found


def test_a_question_is_notified_while_nobody_looks_and_withdrawn_once_answered(
    browser: Browser, site: Serving, talking: TalkingEngine
) -> None:
    """Row 20, for its notification."""
    prompt = "ask while nobody looks"
    talking.expect(prompt)
    with person(browser, site, workers=True) as somebody:
        page = open_hidden_inbox(somebody, site)
        chat = site.client().create_chat(prompt=prompt, title="Nobody looks")
        talking.say(prompt, Question("shell", "run_command", "make clean"))
        (notification,) = until(lambda: list_notifications(page))
        assert notification.startswith("Nobody looks: ")
        assert "make clean" in notification
        asked = site.client().get(f"/api/chat/{chat}/approvals")["approvals"][0]
        site.client().post(f"/api/chat/{chat}/approvals/{asked['id']}", {"decision": "deny"})
        until(lambda: not list_notifications(page))
        talking.say(prompt, ReplyCompleted("done"))


LIST_BUTTONS = (
    "navigator.serviceWorker.ready.then((worker) => worker.getNotifications()).then((all) =>"
    " all.map((one) => [one.title, one.actions.map((action) => action.action).join()]).sort())"
)


def test_a_command_that_a_notification_cannot_show_as_it_is_and_a_question_have_no_buttons_there(
    browser: Browser, site: Serving, talking: TalkingEngine
) -> None:
    commands = {"Short": "make", "Lines": "make\nrm -rf .", "Cut": f"make {'x' * 200}; rm -rf ."}
    asked_of_agent = {
        title: Question("shell", "run_command", command) for title, command in commands.items()
    } | {"Words": Question("question", "ask_person", "Which name shall it have?")}
    for title in asked_of_agent:
        talking.expect(title)
    with person(browser, site, workers=True) as somebody:
        page = open_hidden_inbox(somebody, site)
        for title, question in asked_of_agent.items():
            site.client().create_chat(prompt=title, title=title)
            talking.say(title, question)
            until(lambda title=title: title in str(page.evaluate(LIST_BUTTONS)))
        wanted = [["Cut", ""], ["Lines", ""], ["Short", "allow,deny"], ["Words", ""]]
        assert page.evaluate(LIST_BUTTONS) == wanted
        for asked in site.client().get("/api/chat/approvals")["approvals"]:
            path = f"/api/chat/{asked['chatId']}/approvals/{asked['id']}"
            site.client().post(path, {"decision": "deny"})
        until(lambda: not list_notifications(page))
    for title in asked_of_agent:
        talking.say(title, ReplyCompleted("done"))


def test_a_question_that_came_while_a_hidden_page_loaded_is_notified(
    browser: Browser, site: Serving, talking: TalkingEngine
) -> None:
    prompt = "ask before anybody looks"
    talking.expect(prompt)
    chat = site.client().create_chat(prompt=prompt, title="Nobody looked")
    talking.say(prompt, Question("shell", "run_command", "make clean"))
    until(lambda: site.client().get(f"/api/chat/{chat}/approvals")["approvals"])
    with person(browser, site, workers=True) as somebody:
        somebody.context.grant_permissions(["notifications"], origin=site.url)
        somebody.context.add_init_script(HIDDEN)
        page = somebody.open("/inbox")
        (notification,) = until(lambda: list_notifications(page))
        assert notification.startswith("Nobody looked: ")
    talking.say(prompt, ReplyCompleted("done"))


BODIES = "registration.getNotifications().then((all) => all.map((one) => one.body))"

SLOW_LISTING = """
  const list = ServiceWorkerRegistration.prototype.getNotifications;
  const released = new Promise((resolve) => { window.release = resolve; });
  let first = true;
  ServiceWorkerRegistration.prototype.getNotifications = async function (...given) {
    if (first) {
      first = false;
      await released;
    }
    return list.apply(this, given);
  };
"""


def test_a_question_that_comes_while_old_notifications_are_looked_for_stays_shown(
    browser: Browser, site: Serving, talking: TalkingEngine
) -> None:
    """Row 21."""
    prompt = "ask while the page looks"
    talking.expect(prompt)
    with person(browser, site, workers=True) as somebody:
        somebody.context.grant_permissions(["notifications"], origin=site.url)
        somebody.context.add_init_script(HIDDEN)
        somebody.context.add_init_script(SLOW_LISTING)
        page = somebody.open("/inbox")
        worker = get_service_worker(somebody)
        site.client().create_chat(prompt=prompt, title=prompt)
        talking.say(prompt, Question("shell", "run_command", "make slow"))
        until(lambda: any("make slow" in one for one in worker.evaluate(BODIES)))
        page.evaluate("window.release()")
        assert any("make slow" in one for one in list_notifications(page))
        assert any("make slow" in one for one in worker.evaluate(BODIES))
    talking.say(prompt, ReplyCompleted("done"))


FORGETTING = """
  const show = ServiceWorkerRegistration.prototype.showNotification;
  let forgotten = false;
  ServiceWorkerRegistration.prototype.showNotification = async function (title, options) {
    await show.call(this, title, options);
    if (forgotten || !options.body.includes("make again")) return;
    forgotten = true;
    for (const one of await this.getNotifications({ tag: options.tag })) one.close();
  };
"""


def test_a_notification_that_the_browser_forgets_is_shown_again(
    browser: Browser, site: Serving, talking: TalkingEngine
) -> None:
    """Row 21."""
    prompt = "ask a forgetful browser"
    talking.expect(prompt)
    with person(browser, site, workers=True) as somebody:
        somebody.context.grant_permissions(["notifications"], origin=site.url)
        somebody.context.add_init_script(HIDDEN)
        somebody.context.add_init_script(FORGETTING)
        somebody.open("/inbox")
        worker = get_service_worker(somebody)
        site.client().create_chat(prompt=prompt, title=prompt)
        talking.say(prompt, Question("shell", "run_command", "make again"))
        until(lambda: any("make again" in one for one in worker.evaluate(BODIES)))
    talking.say(prompt, ReplyCompleted("done"))


CLICK = """async ([action, tag]) => {
  const all = await registration.getNotifications();
  const notification = all.find((one) => one.body.includes(tag));
  if (notification) {
    self.dispatchEvent(new NotificationEvent('notificationclick', { action, notification }));
  }
  return Boolean(notification);
}"""
"""What the browser does in the worker when somebody clicks on a notification; false if it does not
list it, as Chromium does for a moment after it was listed while it was shown."""


def test_the_buttons_of_a_notification_answer_also_without_a_tab(
    browser: Browser, site: Serving, talking: TalkingEngine
) -> None:
    """Rows 19 and 21."""
    with person(browser, site, workers=True) as somebody:
        somebody.context.grant_permissions(["notifications"], origin=site.url)
        page = somebody.open("/inbox")
        page.locator(".shell").wait_for()
        page.evaluate("navigator.serviceWorker.ready.then(() => 1)")
        worker = get_service_worker(somebody)
        page.evaluate(HIDDEN)
        for action, closed in (("allow", False), ("deny", True)):
            prompt = f"answered by a notification: {action}"
            command = f"make {action}"
            talking.expect(prompt)
            site.client().create_chat(prompt=prompt, title=prompt)
            talking.say(prompt, Question("shell", "run_command", command))
            until(lambda command=command: any(command in one for one in worker.evaluate(BODIES)))
            if closed:
                page.goto("about:blank")
            until(partial(worker.evaluate, CLICK, [action, command]))
            until(lambda action=action: talking.answers[-1:] == [action == "allow"])
            talking.say(prompt, ReplyCompleted("done"))
        until(lambda: not worker.evaluate(BODIES))


def test_a_click_on_a_notification_opens_its_chat(
    browser: Browser, site: Serving, talking: TalkingEngine
) -> None:
    """Row 21."""
    prompt = "open me by a click"
    talking.expect(prompt)
    with person(browser, site, workers=True) as somebody:
        somebody.context.grant_permissions(["notifications"], origin=site.url)
        page = somebody.open("/inbox")
        page.locator(".shell").wait_for()
        page.evaluate("navigator.serviceWorker.ready.then(() => 1)")
        worker = get_service_worker(somebody)
        page.evaluate(HIDDEN)
        chat = site.client().create_chat(prompt=prompt, title=prompt)
        talking.say(prompt, Question("shell", "run_command", "make click"))
        count = "registration.getNotifications().then((all) => all.length)"
        until(lambda: worker.evaluate(count))
        until(lambda: worker.evaluate(CLICK, ["", "make click"]))
        expect(page).to_have_url(f"{site.url}/{chat}")
        asked = site.client().get(f"/api/chat/{chat}/approvals")["approvals"][0]
        site.client().post(f"/api/chat/{chat}/approvals/{asked['id']}", {"decision": "deny"})
        talking.say(prompt, ReplyCompleted("done"))
