"""Texts that are written from right to left, among others that are not."""

from agentd.agent.engine import Question, ReplyCompleted
from tests.support.daemon import Serving, until
from tests.ui.support import PHONE, Person, TalkingEngine, person

from playwright.sync_api import Browser, Locator, expect  # isort: skip

HEBREW = "תקן את הבאג בקובץ main.py, ואז הרץ את הבדיקות!"
ARABIC = "أصلح خطأ الدفع المزدوج في صفحة الخروج (checkout.py) قبل يوم الجمعة"
CODE = "foo(bar, 1);"
REPLY = f"""\
{HEBREW}

```python
{CODE}
```

1. {HEBREW}
2. Run it!

> {HEBREW}

In English, too!
"""

FIND = """(node, wanted) => {
  const walk = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  for (let text = walk.nextNode(); text; text = walk.nextNode()) {
    const at = text.data.indexOf(wanted);
    if (at < 0) continue;
    const range = document.createRange();
    range.setStart(text, at);
    range.setEnd(text, at + wanted.length);
    const { left, right } = range.getBoundingClientRect();
    return { left, right };
  }
}"""


def place(where: Locator, text: str) -> tuple[float, float]:
    """Return where a piece of text begins and ends, from the left."""
    found = where.evaluate(FIND, text)
    return found["left"], found["right"]


def is_whole(where: Locator, text: str) -> bool:
    """Whether a piece of text is within its element's box, which cuts off the rest."""
    box = where.bounding_box()
    assert box
    left, right = place(where, text)
    return box["x"] - 1 <= left and right <= box["x"] + box["width"] + 1


def test_code_is_read_from_the_left_and_each_paragraph_as_it_is_written(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 38."""
    talking.expect("mend")
    client = site.client()
    chat = client.create_chat(prompt="mend", title="Mend it")
    talking.say("mend", ReplyCompleted(REPLY))
    client.messages(chat)
    reply = ada.open(f"/{chat}").locator(".item-assistant .prose")
    pieces = [place(reply.locator("pre"), piece) for piece in ("foo", "(", "bar", "1", ")", ";")]
    assert pieces == sorted(pieces)
    english = reply.locator("p").last
    assert place(english, "!")[0] > place(english, "too")[0]
    for kind in ("p", "li", "blockquote p"):
        written = reply.locator(kind).first
        assert place(written, "!")[0] < place(written, "main.py")[0]
    assert place(reply.locator("li").last, "!")[0] > place(reply.locator("li").last, "Run")[0]
    list_box, item = reply.locator("ol").bounding_box(), reply.locator("li").first.bounding_box()
    assert list_box
    assert item
    assert item["x"] + item["width"] < list_box["x"] + list_box["width"] - 10  # room for its number
    side = "(one) => getComputedStyle(one).borderRightWidth"
    assert reply.locator("blockquote").evaluate(side) == "2px"


def test_a_title_that_does_not_fit_keeps_its_beginning(browser: Browser, site: Serving) -> None:
    """Row 39: which is on its right, if it is written from there."""
    client = site.client()
    chat = client.create_chat(title=ARABIC)
    with person(browser, site, size=PHONE) as somebody:
        page = somebody.open("/chats")
        row = page.locator(f'main [data-chat="{chat}"] .name')
        expect(row).to_have_text(ARABIC)
        assert row.evaluate("(node) => node.scrollWidth > node.clientWidth")
        assert is_whole(row, ARABIC[:5])
        page.goto(f"{site.url}/{chat}")
        heading = page.get_by_role("heading", name=ARABIC)
        expect(heading).to_be_visible()
        assert is_whole(heading, ARABIC[:5])
        client.delete(f"/api/chats/{chat}")
        page.goto(f"{site.url}/chats/trash")
        row = page.locator(".trash-row .name", has_text=ARABIC)
        expect(row).to_be_visible()
        assert is_whole(row, ARABIC[:5])


def test_a_question_shows_the_whole_path(
    browser: Browser, site: Serving, talking: TalkingEngine
) -> None:
    """Rows 19 and 39: whoever allows it has read where it ends."""
    path = f"/home/ada/projects/{'long/' * 30}../../.ssh/authorized_keys"
    talking.expect("write")
    client = site.client()
    chat = client.create_chat(prompt="write", title="Writes")
    talking.say("write", Question("outside", "write_file", path, "It must be so."))
    until(lambda: client.get("/api/chat/approvals")["approvals"])
    with person(browser, site, size=PHONE) as somebody:
        asked = somebody.open(f"/{chat}").locator(".ask .body")
        expect(asked).to_contain_text(path)
        assert is_whole(asked, "authorized_keys")
    talking.say("write", ReplyCompleted("done"))
