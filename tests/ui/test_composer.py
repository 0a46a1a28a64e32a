"""Writing a prompt: files that go with it, dictation, and the draft that all tabs share."""

import json
import re
import sys
from pathlib import Path

import pytest

from agentd.agent.engine import ReplyCompleted
from tests.support.daemon import Serving, until
from tests.ui.accessibility import check_accessibility
from tests.ui.support import DESK, PHONE, Person, TalkingEngine, find_prompt_box, person

from playwright.sync_api import Browser, Page, Route, expect  # isort: skip

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000a49444154789c6300010000050001"
)
TRANSFER = """([kind, files, text]) => {
  const data = new DataTransfer();
  for (const [name, type, bytes] of files)
    data.items.add(new File([new Uint8Array(bytes)], name, { type }));
  if (text) data.setData('text/plain', text);
  const box = document.querySelector('textarea.draft');
  const options = { bubbles: true, cancelable: true };
  const event = kind === 'paste'
    ? new ClipboardEvent('paste', { ...options, clipboardData: data })
    : new DragEvent(kind, { ...options, dataTransfer: data });
  return !box.dispatchEvent(event);
}"""
"""Pastes or drops files; whether the page took them."""


def list_uploads(site: Serving) -> dict[str, int]:
    """List the files in the upload folder with their sizes."""
    return {one["name"]: one["size"] for one in site.client().get("/api/files")["files"]}


def test_files_are_attached_sent_with_the_prompt_and_outlive_a_reload(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    chat = site.client().create_chat(title="With files")
    page = ada.open(f"/{chat}")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Attach files").click()
    chooser.value.set_files(
        [
            {"name": "one notes.txt", "mimeType": "text/plain", "buffer": b"first"},
            {"name": "picture.png", "mimeType": "image/png", "buffer": PNG},
        ]
    )
    attached = page.get_by_role("list", name="Attached files").get_by_role("listitem")
    expect(attached).to_have_text(["one notes.txt5 B", f"picture.png{len(PNG)} B"])
    find_prompt_box(page).fill("Look at these")
    find_prompt_box(page).blur()
    page.reload()
    expect(attached).to_have_count(2)
    expect(find_prompt_box(page)).to_have_value("Look at these")
    find_prompt_box(page).press("Enter")
    expect(page.locator(".prompt")).to_contain_text("uploads/one notes.txt")
    expect(attached).to_have_count(0)
    wanted = "Look at these\n\nAttached files:\n- uploads/one notes.txt\n- uploads/picture.png"
    until(lambda: wanted in [one.prompt for one in talking.given])
    folder = Path(site.settings.workspace) / "uploads"
    assert (folder / "picture.png").read_bytes() == PNG


def test_pictures_are_pasted_and_files_are_dropped_and_can_be_removed(
    ada: Person, site: Serving
) -> None:
    page = ada.open(f"/{site.client().create_chat(title='Pasted')}")
    find_prompt_box(page).wait_for()
    attached = page.get_by_role("list", name="Attached files").get_by_role("listitem")
    assert page.evaluate(TRANSFER, ["paste", [["image.png", "image/png", [*PNG]]], ""])
    expect(attached).to_contain_text("clipboard-")
    assert page.evaluate(TRANSFER, ["drop", [["dropped.md", "text/markdown", [104, 105]]], ""])
    expect(attached.nth(1)).to_have_text("dropped.md2 B")
    with_text = ["paste", [["cells.png", "image/png", [*PNG]]], "1\t2"]
    assert not page.evaluate(TRANSFER, with_text), "the text is what is pasted"
    before = list_uploads(site)
    page.get_by_role("button", name="Remove dropped.md").click()
    expect(attached).to_have_count(1)
    until(lambda: set(before) - set(list_uploads(site)) == {"dropped.md"})


def test_a_file_that_is_refused_says_why_and_holds_the_prompt_until_it_is_gone(
    ada: Person, site: Serving
) -> None:
    page = ada.open(f"/{site.client().create_chat(title='Refused')}")
    find_prompt_box(page).fill("with a program")
    page.evaluate(TRANSFER, ["drop", [["tool.exe", "", [0, 1, 2, 255]]], ""])
    refused = page.get_by_role("listitem").filter(has_text="tool.exe")
    expect(refused).to_contain_text("Files of this kind are not taken")
    expect(refused.get_by_role("button", name="Retry")).to_have_count(0)
    expect(page.get_by_role("button", name="Send")).to_be_disabled()
    page.get_by_role("button", name="Remove tool.exe").click()
    find_prompt_box(page).press("Enter")
    expect(page.locator(".prose", has_text="echo: with a program")).to_be_visible()
    page.route(
        "**/api/files",
        lambda route: route.fulfill(body='{"maxFileBytes": 3}', content_type="application/json"),
    )
    page.reload()
    find_prompt_box(page).wait_for()
    page.evaluate(TRANSFER, ["drop", [["large.txt", "text/plain", [*b"large"]]], ""])
    expect(page.get_by_role("listitem").filter(has_text="large.txt")).to_contain_text("Larger than")


def test_a_prompt_that_is_sent_while_its_files_are_on_their_way_waits_for_them(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    page = ada.open(f"/{site.client().create_chat(title='On the way')}")
    find_prompt_box(page).wait_for()
    held: list[Route] = []
    page.route(
        "**/api/files",
        lambda route: held.append(route) if route.request.method == "POST" else route.continue_(),
    )
    page.evaluate(TRANSFER, ["drop", [["slow.txt", "text/plain", [*b"slow"]]], ""])
    until(lambda: page.evaluate("1") and held)
    find_prompt_box(page).fill("once it is there")
    find_prompt_box(page).press("Enter")
    expect(page.locator(".composer .state")).to_contain_text("once the files are there")
    assert find_prompt_box(page).input_value() == "once it is there"
    held[0].abort()
    expect(page.get_by_role("listitem").filter(has_text="slow.txt")).to_contain_text(
        "agentd does not answer"
    )
    page.unroute("**/api/files")
    page.get_by_role("button", name="Retry").click()
    expect(page.locator(".prompt")).to_contain_text("uploads/slow.txt")
    expect(page.locator(".prose", has_text="echo: once it is there")).to_be_visible()
    assert len([one for one in talking.given if "once it is there" in one.prompt]) == 1


def test_files_on_their_way_as_their_chat_is_left_are_told_and_none_is_sent_later(
    ada: Person, site: Serving
) -> None:
    site.client().create_chat(title="Gone to")
    page = ada.open(f"/{site.client().create_chat(title='Left early')}")
    find_prompt_box(page).wait_for()
    held: list[Route] = []

    def hold(route: Route) -> None:
        if b"once back" in (route.request.post_data_buffer or b"once back"):
            route.continue_()
        else:
            held.append(route)

    page.route("**/api/files", hold)
    given = [[f"{name}.txt", "text/plain", [*b"x"]] for name in ("one", "two")]
    page.evaluate(TRANSFER, ["drop", given, ""])
    until(lambda: page.evaluate("1") and held)
    page.get_by_role("link", name="Gone to").click()
    told = page.locator(".toast", has_text="2 files were not attached")
    expect(told).to_contain_text("one.txt, two.txt")
    page.get_by_role("link", name="Left early").click()
    find_prompt_box(page).wait_for()
    page.evaluate(TRANSFER, ["drop", [["three.txt", "text/plain", [*b"once back"]]], ""])
    attached = page.get_by_role("list", name="Attached files").get_by_role("listitem")
    expect(attached).to_have_text(["three.txt9 B"])
    assert len(held) == 1, "two.txt is not sent"


@pytest.fixture
def dictating(site: Serving) -> None:
    """The speech engine is a program that tells how many seconds it heard."""
    program = "import os, sys; print('heard', os.path.getsize(sys.argv[1]) > 3000, 'words')"
    engine = {"name": "scripted", "engine": "command"}
    command = [sys.executable, "-c", program, "{file}"]
    said = {"engines": [{**engine, "command": command}]}
    Path(site.layout.speech_settings).write_text(json.dumps(said))


def test_a_prompt_is_dictated_at_the_cursor_or_given_up(
    ada: Person, site: Serving, dictating: None
) -> None:
    ada.context.grant_permissions(["microphone"], origin=site.url)
    page = ada.open(f"/{site.client().create_chat(title='Dictated')}")
    find_prompt_box(page).fill("before after")
    find_prompt_box(page).evaluate("(box) => box.setSelectionRange(6, 6)")
    bar = page.get_by_role("group", name="Dictation")
    page.get_by_role("button", name="Dictate").click()
    expect(bar).to_contain_text("Listening")
    expect(bar.get_by_role("button", name="Done")).to_be_focused()
    page.keyboard.press("Escape")
    expect(bar).to_have_count(0)
    expect(find_prompt_box(page)).to_have_value("before after")
    page.get_by_role("button", name="Dictate").click()
    expect(bar).to_contain_text(re.compile(r"Listening (?!0:00)\d"))
    bar.get_by_role("button", name="Done").click()
    expect(find_prompt_box(page)).to_have_value("before heard True words after")
    expect(bar).to_have_count(0)


def test_a_dictation_that_ends_by_its_greatest_length_is_written_down(
    ada: Person, site: Serving, dictating: None
) -> None:
    settings = Path(site.layout.speech_settings)
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"max_seconds": 1}))
    ada.context.grant_permissions(["microphone"], origin=site.url)
    page = ada.open(f"/{site.client().create_chat(title='At length')}")
    page.evaluate(
        "() => { const inTime = window.setTimeout;"
        " window.setTimeout = (run, wait) => inTime(run, wait === 1000 ? 1700 : wait); }"
    )
    page.get_by_role("button", name="Dictate").click()
    expect(find_prompt_box(page)).to_have_value("heard True words")
    expect(page.locator(".toast")).to_have_count(0)


def test_what_was_said_is_kept_until_it_is_written_down(
    ada: Person, site: Serving, dictating: None
) -> None:
    ada.context.grant_permissions(["microphone"], origin=site.url)
    page = ada.open(f"/{site.client().create_chat(title='Retried')}")
    failed = {"status": 502, "json": {"code": "Upstream", "message": "It broke", "details": ""}}
    page.route("**/transcribe?*", lambda route: route.fulfill(**failed), times=1)
    bar = page.get_by_role("group", name="Dictation")
    page.get_by_role("button", name="Dictate").click()
    expect(bar).to_contain_text(re.compile(r"Listening (?!0:00)\d"))
    bar.get_by_role("button", name="Done").click()
    expect(page.locator(".toast")).to_contain_text("It broke")
    expect(bar).to_contain_text("not transcribed yet")
    expect(bar.get_by_role("button", name="Retry")).to_be_focused()
    page.keyboard.press("Enter")
    expect(find_prompt_box(page)).to_have_value("heard True words")
    expect(bar).to_have_count(0)


def test_why_one_cannot_dictate_is_told(ada: Person, site: Serving, dictating: None) -> None:
    page = ada.open(f"/{site.client().create_chat(title='Silent')}")
    page.evaluate(
        "void (navigator.mediaDevices.getUserMedia = () => "
        "Promise.reject(new DOMException('', 'NotAllowedError')))"
    )
    page.get_by_role("button", name="Dictate").click()
    expect(page.locator(".toast")).to_contain_text("The microphone is not allowed here")
    nothing = {"engines": [{"name": "x", "engine": "command", "command": ["/no/x", "{file}"]}]}
    Path(site.layout.speech_settings).write_text(json.dumps(nothing))
    page.get_by_role("button", name="Dictate").click()
    expect(page.locator(".toast").last).to_contain_text("No speech engine can be used")


def test_a_draft_is_taken_over_from_another_tab_unless_one_is_typing(
    ada: Person, site: Serving
) -> None:
    chat = site.client().create_chat(title="Two tabs")
    one, other = ada.open(f"/{chat}"), ada.open(f"/{chat}")
    for page in (one, other):
        find_prompt_box(page).blur()
    find_prompt_box(one).fill("written in one tab")
    find_prompt_box(one).blur()
    expect(find_prompt_box(other)).to_have_value("written in one tab")
    find_prompt_box(other).focus()
    find_prompt_box(one).fill("written later")
    find_prompt_box(one).blur()
    expect(find_prompt_box(other)).to_have_value("written in one tab")
    find_prompt_box(other).blur()
    expect(find_prompt_box(other)).to_have_value("written later")
    find_prompt_box(one).press("Enter")
    expect(find_prompt_box(other)).to_have_value("")


def test_the_skill_and_the_model_are_remembered_for_each_chat(ada: Person, site: Serving) -> None:
    folder = Path(site.layout.skills) / "release"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: release\ndescription: Ships\n---\n\nShip.\n")
    one, other = (site.client().create_chat(title=title) for title in ("With a skill", "Without"))
    page = ada.open(f"/{one}")
    page.get_by_role("button", name="Skill").click()
    page.get_by_role("menuitemradio", name="release").click()
    page.get_by_role("button", name="Model").click()
    page.get_by_role("menuitemradio", name="mine").click()
    expect(page.get_by_role("button", name="Model: mine")).to_be_visible()
    wanted = {"model": "mine", "skill": "release"}
    until(
        lambda: wanted.items() <= site.client().get(f"/api/chat/{one}").json()["settings"].items()
    )
    page.goto(f"{ada.url}/{other}")
    expect(page.get_by_role("button", name="Skill")).to_have_text("No skill")
    page.goto(f"{ada.url}/{one}")
    expect(page.get_by_role("button", name="Skill")).to_have_text("release")
    expect(page.get_by_role("button", name="Model: mine")).to_be_visible()


def test_the_skill_of_the_last_new_chat_is_offered_for_the_next_while_it_is_there(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    folder = Path(site.layout.skills) / "tidy"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: tidy\ndescription: Tidies\n---\n\nTidy.\n")
    page = ada.open("/")
    skill = page.get_by_role("button", name="Skill")
    skill.click()
    page.get_by_role("menuitemradio", name="tidy").click()
    begin(page, "tidy up")
    chosen = {one.prompt: one.skill for one in talking.given}
    assert chosen["tidy up"] == "tidy"
    page.goto(f"{ada.url}/")
    expect(skill).to_have_text("tidy")
    (folder / "SKILL.md").unlink()
    folder.rmdir()
    until(lambda: "tidy" not in [one["name"] for one in site.client().get("/api/skills")["skills"]])
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/api/start", hold)  # the prompt is sent before the page knows the skills
    page.reload()
    begin(page, "tidy up again")
    chosen = {one.prompt: one.skill for one in talking.given}
    assert chosen["tidy up again"] == "none"
    held[0].continue_()
    expect(page.locator(".chats .item", has_text="tidy up again")).to_be_visible()


def begin(page: Page, text: str) -> None:
    """Begin a chat, and wait for its answer."""
    page.get_by_label("The first prompt").fill(text)
    page.get_by_label("The first prompt").press("Enter")
    expect(page.locator(".prose", has_text=f"echo: {text}")).to_be_visible()


def test_attached_files_fit_a_phone_and_can_be_used_by_everybody(
    browser: Browser, site: Serving
) -> None:
    with person(browser, site, size=PHONE) as somebody:
        page = somebody.open(f"/{site.client().create_chat(title='Small')}")
        find_prompt_box(page).wait_for()
        name = "a very long name of a file that does not fit on a phone at all.txt"
        files = [[name, "text/plain", [*b"x"]], ["tool.exe", "", [0, 1]]]
        page.evaluate(TRANSFER, ["drop", files, ""])
        expect(page.get_by_role("listitem").filter(has_text="not taken")).to_be_visible()
        check_accessibility(page)


def test_a_sent_prompt_empties_the_box_for_the_next(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    talking.expect("the first one")
    page = ada.open(f"/{site.client().create_chat(title='Next')}")
    find_prompt_box(page).fill("the first one")
    find_prompt_box(page).press("Enter")
    expect(find_prompt_box(page)).to_have_value("")
    expect(page.get_by_role("button", name="Send")).to_be_disabled()
    talking.say("the first one", ReplyCompleted("done"))


@pytest.mark.parametrize("small", [True, False])
def test_a_slash_offers_the_custom_commands(
    browser: Browser, site: Serving, talking: TalkingEngine, small: bool
) -> None:
    folder = Path(site.layout.commands)
    folder.mkdir(exist_ok=True)
    (folder / "review.md").write_text(
        "---\ndescription: Reviews a file\nargument-hint: [file]\n---\nReview $1.\n"
    )
    (folder / "preview.md").write_text("Show the site.\n")
    with person(browser, site, size=PHONE if small else DESK) as somebody:
        page = somebody.open(f"/{site.client().create_chat(title='Commands')}")
        box = find_prompt_box(page)
        box.fill("/")
        options = page.get_by_role("listbox", name="Commands").get_by_role("option")
        expect(options).to_have_text(["/previewShow the site.", "/review [file]Reviews a file"])
        box.fill("/re")
        expect(options).to_have_text(["/review [file]Reviews a file", "/previewShow the site."])
        if small:
            check_accessibility(page)
            options.first.click()
        else:
            box.press("ArrowDown")
            box.press("ArrowUp")
            box.press("Enter")
        expect(box).to_have_value("/review ")
        expect(options).to_have_count(0)
        box.press_sequentially("a.py")
        box.press("Escape")
        page.get_by_role("button", name="Send", exact=True).click()
        expect(box).to_have_value("")
        until(lambda: "/review a.py" in [one.prompt for one in talking.given])
