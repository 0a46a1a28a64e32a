"""An edit changes what it is asked to, and what the person wrote around it stays."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from agentd.storage.yaml import editor as yaml_editor
from agentd.storage.yaml import reader as yaml_reader
from agentd.storage.yaml.editor import YamlEditor

FILE = """# Access keys
format: 1   # do not touch

# mine:
keys:
  # the laptop
  - name: laptop    # trailing
    salt: "0123"
    created: 2026-01-01T00:00:00.000Z

  # the phone
  - name: 'no'
    salt: 012
    created: ~
# the end
"""


class Entry(Struct, frozen=True):
    name: str
    salt: str = ""
    created: str | None = None


class File(Struct, frozen=True):
    format: int = 1
    keys: list[Entry] | None = None


def edit(text: str, change: Any) -> str:
    return yaml_editor.edit_content("f", text.encode(), change).decode()


def read(text: str) -> File:
    return yaml_reader.load_yaml("f", text.encode(), File)


def test_without_a_change_every_byte_stays():
    assert edit(FILE, lambda _: None) == FILE


@pytest.mark.parametrize(
    "text",
    [
        "a: no\nb: 012\nc: ~\nd: 1_000\ne: 12:30:45\nf: 'x'\ng: \"y\"\nh:\n",
        "- a\n- b\n",
        "keys:\n- name: x\n  salt: y\n# end\n",
        "a:\n  b:\n    c: 1   # deep\n",
        f"long: {'word ' * 60}word\n",
        "text: |\n  one\n  two\n",
        "a: 'Ünï ☃'\r\nb: 2\r\n",
    ],
)
def test_words_quotes_and_line_ends_stay_as_typed(text):
    assert edit(text, lambda _: None) == text


def test_a_new_entry_goes_to_the_end_is_quoted_and_closing_comments_still_close():
    grown = edit(FILE, lambda text: text.append_item(("keys",), {"name": "no", "salt": "012"}))
    body, end = FILE.split("# the end")
    assert grown == f"{body}  - name: 'no'\n    salt: '012'\n# the end{end}"


def test_a_changed_value_is_all_that_changes():
    def change(text: YamlEditor) -> None:
        text.update_item(("keys",), 0, {"salt": "9"})

    assert edit(FILE, change) == FILE.replace('"0123"', "'9'")


def test_an_entry_leaves_with_its_comment_and_the_neighbours_keep_theirs():
    without_laptop = edit(FILE, lambda text: text.remove_item(("keys",), 0))
    assert "laptop" not in without_laptop
    assert "# the phone\n  - name: 'no'\n" in without_laptop
    assert without_laptop.startswith(FILE[: FILE.index("  # the laptop")])
    without_phone = edit(FILE, lambda text: text.remove_item(("keys",), 1))
    assert without_phone == FILE[: FILE.index("\n  # the phone")] + "# the end\n"


def test_the_last_entry_leaves_an_empty_list():
    def remove_both(text: YamlEditor) -> None:
        text.remove_item(("keys",), 1)
        text.remove_item(("keys",), 0)

    left = edit(FILE, remove_both)
    assert left == FILE[: FILE.index("keys:")] + "keys: []\n# the end\n"
    assert read(left) == File(1, [])


@pytest.mark.parametrize(
    "text", ["", "# mine\n", "format: 1\n", "format: 1\nkeys:\n", "keys: []\n"]
)
def test_a_list_that_did_not_exist_begins(text):
    grown = edit(text, lambda text: text.append_item(("keys",), {"name": "a"}))
    assert read(grown).keys == [Entry("a")]
    assert ("# mine" in grown) == ("# mine" in text)


def test_a_list_in_one_line_is_edited_too():
    text = "keys: [{name: a}, {name: b}] # both\n"
    left = edit(text, lambda text: text.remove_item(("keys",), 0))
    assert read(left).keys == [Entry("b")]
    assert "# both" in left


comments = st.lists(st.sampled_from(["", "  # a remark", "  # another: one"]), max_size=3)
blocks = st.lists(
    st.tuples(comments, st.sampled_from(["", "   # why"]), st.sampled_from(["{}", "'{}'", '"{}"'])),
    min_size=1,
    max_size=5,
)


@given(blocks, comments, st.data())
def test_any_entry_can_go_and_every_other_line_stays(items, below, data):
    parts = []
    for number, (above, behind, quote) in enumerate(items):
        lines = [*above, f"  - name: {quote.format(number)}", f"    salt: s{behind}"]
        parts.append("".join(f"{line}\n" for line in lines))
    tail = "".join(f"{line}\n" for line in below)
    text = "# head\nkeys:\n" + "".join(parts) + tail
    index = data.draw(st.integers(0, len(items) - 1))
    left = edit(text, lambda text: text.remove_item(("keys",), index))
    above = items[index][0]
    headings = above[: max((at + 1 for at, line in enumerate(above) if not line), default=0)]
    empty = " []" if len(items) == 1 else ""
    parts[index] = "".join(f"{line}\n" for line in headings)
    expected = f"# head\nkeys:{empty}\n" + "".join(parts) + tail
    assert _list_lines(left) == _list_lines(expected)
    assert [key.name for key in read(left).keys or []] == [
        str(number) for number in range(len(items)) if number != index
    ]


def _list_lines(text: str) -> list[str]:
    """Return the lines that say something; the number of blank ones between is not promised."""
    return [line.strip() for line in text.splitlines() if line.strip()]


@given(blocks, comments)
def test_what_was_appended_can_go_again_without_a_trace(items, below):
    text = "# head\nkeys:\n"
    for number, (above, behind, quote) in enumerate(items):
        lines = [*above, f"  - name: {quote.format(number)}", f"    salt: s{behind}"]
        text += "".join(f"{line}\n" for line in lines)
    text += "".join(f"{line}\n" for line in below)

    def add_and_remove(text: YamlEditor) -> None:
        text.append_item(("keys",), {"name": "new"})
        text.remove_item(("keys",), len(items))

    assert _list_lines(edit(text, add_and_remove)) == _list_lines(text)


@given(blocks, comments, st.data())
def test_several_come_and_go_at_once_as_they_do_one_by_one(items, below, data):
    text = "# head\nkeys:\n"
    for number, (above, behind, quote) in enumerate(items):
        lines = [*above, f"  - name: {quote.format(number)}", f"    salt: s{behind}"]
        text += "".join(f"{line}\n" for line in lines)
    text += "".join(f"{line}\n" for line in below)
    numbers = data.draw(st.sets(st.integers(0, len(items) - 1), min_size=1))
    added = [{"name": f"new {number}"} for number in range(data.draw(st.integers(1, 3)))]

    def remove_one_by_one(text: YamlEditor) -> None:
        for number in sorted(numbers, reverse=True):
            text.remove_item(("keys",), number)

    def append_one_by_one(text: YamlEditor) -> None:
        for entry in added:
            text.append_item(("keys",), entry)

    for at_once, one_by_one in (
        (lambda text: text.remove_items(("keys",), numbers), remove_one_by_one),
        (lambda text: text.append_items(("keys",), added), append_one_by_one),
    ):
        left = edit(text, at_once)
        assert left == edit(text, one_by_one)
        assert read(left) == read(edit(text, one_by_one))
