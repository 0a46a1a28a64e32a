"""A file taken apart into entries means what the whole of it means to any reader of YAML."""

from typing import Any

import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Struct, structs

from agentd.core.errors import ConfigError
from agentd.storage.yaml import reader as yaml_reader
from agentd.storage.yaml.list_editor import split_list

FILE = """\
# All of them.
format: 1
keys:  # one below the other
# the first
- id: 'a'
  text: |
    several
    # lines
- id: b

  list: [1, 2]
  # inside

# about c, not about b
# and more of it
-
  id: c
# the end

other: 2
"""


class Item(Struct):
    id: str
    text: str = ""
    list: tuple[str, ...] = ()


class File(Struct):
    format: str = ""
    other: str = ""
    keys: tuple[Item, ...] | None = None


def parse(text: str) -> Any:
    return yaml.BaseLoader(text).get_single_data()


def parse_entries(content: str) -> list[object]:
    return [parse(entry.value) for entry in split_list(content, "keys").entries]


def test_each_entry_stands_alone_with_its_line_and_the_comments_above_it():
    listing = split_list(FILE, "keys")
    assert [entry.line for entry in listing.entries] == [5, 9, 16]
    assert [entry.above for entry in listing.entries] == [
        "# the first\n",
        "",
        "# about c, not about b\n# and more of it\n",
    ]
    assert parse_entries(FILE) == parse(FILE)["keys"]
    assert listing.content == FILE
    assert listing.tail == "# the end\n\nother: 2\n"


def test_the_frame_keeps_every_line_where_it_was():
    frame = split_list(FILE, "keys").frame
    assert frame.count("\n") == FILE.count("\n")
    assert parse(frame) == {"format": "1", "keys": "", "other": "2"}
    assert frame.split("\n")[-2] == "other: 2"


def test_a_list_in_brackets_is_not_taken_apart():
    for content in ("keys: [{id: a}]\n", "keys:\n  [{id: a}]\n", "'keys':\n- a\n", "", "a: b"):
        listing = split_list(content, "keys")
        assert listing.entries == ()
        assert listing.frame == listing.content == content


def test_an_entry_is_removed_with_the_comments_right_above_it():
    listing = split_list(FILE, "keys").without_items((2,), "keys")
    assert "about c" not in listing.content
    assert "the end" in listing.content
    assert [one["id"] for one in parse(listing.content)["keys"]] == ["a", "b"]


def test_the_last_entry_leaves_an_empty_list():
    listing = split_list("keys:  # all\n  - a\nx: 1\n", "keys").without_items((0,), "keys")
    assert listing.content == "keys: []  # all\nx: 1\n"


def append_entry(content: str) -> str:
    return split_list(content, "keys").with_appended(["id: z", "n: 1"], "keys").content


def test_one_more_stands_behind_the_last_in_its_column():
    assert (
        append_entry("keys:\n  - id: a\n# end\n")
        == "keys:\n  - id: a\n  - id: z\n    n: 1\n# end\n"
    )
    assert append_entry("keys:\n- id: a") == "keys:\n- id: a\n- id: z\n  n: 1\n"
    assert append_entry("keys:\r\n- id: a\r\n") == "keys:\r\n- id: a\r\n- id: z\r\n  n: 1\r\n"


def test_one_more_opens_a_list_that_is_empty_or_missing():
    more = "- id: z\n  n: 1\n"
    assert append_entry("f: 1\nkeys: []  # none\ng: 2\n") == f"f: 1\nkeys:  # none\n{more}g: 2\n"
    assert append_entry("keys:\n# later\n") == f"keys:\n{more}# later\n"
    assert append_entry("f: 1") == f"f: 1\nkeys:\n{more}"
    assert append_entry("") == f"keys:\n{more}"


PIECES = st.sampled_from(
    ["- ", "-\n", "\n", "  ", " ", "'", '"', "#", "[", "]", "{", "}", ": ", "a", "|\n", ">\n", "\t",
     "- id: x\n", "keys:\n", "---\n", "...\n", "&a ", "*a", "!t ", "? ", "\r\n", ",", "\\"]
)  # fmt: skip


@given(at=st.integers(0, len(FILE)), cut=st.integers(0, 30), put=st.lists(PIECES, max_size=4))
@example(at=FILE.index("'a'") + 2, cut=1, put=[])
@example(at=FILE.index("[1"), cut=6, put=["["])
def test_what_is_clean_entry_by_entry_means_the_same_as_a_whole(at, cut, put):
    content = FILE[:at] + "".join(put) + FILE[at + cut :]
    listing = split_list(content, "keys")
    assert listing.content == content
    try:
        frame = yaml_reader.load_yaml("FILE", listing.frame.encode(), File)
        items = tuple(
            yaml_reader.load_yaml("FILE", entry.value.encode(), Item) for entry in listing.entries
        )
    except ConfigError:
        return
    if frame.keys is None and items:
        whole = yaml_reader.load_yaml("FILE", content.encode(), File)
        assert whole == structs.replace(frame, keys=items)
