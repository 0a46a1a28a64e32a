"""A value changes; every other byte stays as the person wrote it."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.core.errors import ConfigError, ConfigProblem, Conflict
from agentd.storage import document
from agentd.storage.yaml import editor as yaml_editor
from agentd.storage.yaml.editor import YamlEditor

FILE = """\
# The settings of this host.
host:   127.0.0.1   # loopback

port: 8750 # the usual one
hosts:
# odd, but mine
- a.example     # first
- b.example
# before the note
note: |
  two
  lines
# about the map
map:
    # the first
    one:   {color: '#111111'}   # 1
    # the second
    two:
        color: "#222222"
    # the end of the map
#engine: offline
last: 'x'
"""


def edit(text: str, *steps) -> str:
    edited = YamlEditor("f.yml", text)
    for step, path, *more in steps:
        getattr(edited, step)(path, *more)
    yaml.safe_load(edited.content)
    return edited.content


@pytest.mark.parametrize(
    ("path", "value", "before", "after"),
    [
        (("host",), "::1", "127.0.0.1", "'::1'"),
        (("port",), 1, "8750", "1"),
        (("hosts",), ["x"], "- a.example     # first\n- b.example", " ['x']"),
        (("note",), "it's", "|\n  two\n  lines", "'it''s'"),
        (("map", "one", "color"), "#999999", "'#111111'", "'#999999'"),
        (("map", "two", "color"), "#999999", '"#222222"', "'#999999'"),
        (("last",), None, "'x'", "null"),
    ],
)
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_only_the_value_is_another(path, value, before, after, ends):
    text = FILE.replace("\n", ends)
    expected = FILE.replace(before, after).replace("\n", ends)
    assert edit(text, ("set", path, value)) == expected


def test_a_new_entry_stands_below_where_it_was_commented_out_or_at_the_end():
    line = "#engine: offline\n"
    assert edit(FILE, ("set", ("engine",), "acp")) == FILE.replace(line, line + "engine: 'acp'\n")
    assert edit(FILE, ("set", ("other",), 1.5)) == FILE + "other: 1.5\n"
    assert edit(FILE[:-1], ("set", ("other",), True)) == FILE + "other: true\n"
    assert edit("", ("set", ("a", "b"), 1)) == "a: {b: 1}\n"
    assert edit("# mine", ("set", ("a",), 1)) == "# mine\na: 1\n"
    assert edit("  a: 1\n", ("set", ("b",), 2)) == "  a: 1\n  b: 2\n"


@pytest.mark.parametrize("end", ["...", "...\n", "...\n# what follows\n"])
def test_a_new_entry_or_list_stands_above_the_end_of_the_document(end):
    steps = ("set", ("b",), 2), ("append_item", ("c",), {"d": 3})
    assert edit(f"a: 1\n{end}", *steps) == f"a: 1\nb: 2\nc:\n  - d: 3\n{end}"


def test_a_new_entry_of_an_inner_map_stands_behind_the_last_one():
    after = '        color: "#222222"\n'
    new = "    three: {color: '#333333'}\n"
    steps = ("set", ("map", "three"), {"color": "#333333"})
    assert edit(FILE, steps) == FILE.replace(after, after + new)


@pytest.mark.parametrize("empty", ["a:", "a: ", "a: ~", "a: null", "a: {}"])
def test_an_empty_entry_is_filled(empty):
    found = edit(f"{empty} # why\nb: 1\n", ("set", ("a", "x"), 2))
    assert yaml.safe_load(found) == {"a": {"x": 2}, "b": 1}
    assert found.endswith(" # why\nb: 1\n")


def test_an_entry_leaves_with_its_lines():
    assert edit(FILE, ("delete", ("port",))) == FILE.replace("port: 8750 # the usual one\n", "")
    hosts = "hosts:\n# odd, but mine\n- a.example     # first\n- b.example\n"
    assert edit(FILE, ("delete", ("hosts",))) == FILE.replace(hosts, "")
    assert edit(FILE, ("delete", ("nothing",))) == FILE
    left = edit("m:\n  a: 1\nn: 2\n", ("delete", ("m", "a")))
    assert left == "m:\n  {}\nn: 2\n"


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("a: {b: {}}\n", ""),
        ("x: 1\na:\n  b:\n    {}\n", "x: 1\n"),
        ("a:\n  b: {}\n  c: 1\n", "a:\n  c: 1\n"),
        ("a: {b: {}, c: 1}\n", "a: {c: 1}\n"),
        ("a:\n  b:\n    # why\n    {}\n", None),
        ("a:\n  # why\n  b: {}\n", "a:\n  # why\n  {}\n"),
        ("a:\n  b: {}  # why\n", None),
        ("a: {b: {c: 1}}\n", None),
        ("a: {b: 1}\n", None),
        ("a: {}\n", None),
        ("", None),
    ],
)
def test_empty_maps_leave_unless_somebody_commented_on_them(text, after):
    assert edit(text, ("prune_empty", ("a", "b"))) == (text if after is None else after)


def test_entries_change_places_with_their_comments():
    found = edit(FILE, ("reorder", ("map",), ["two", "one"]))
    one = "    # the first\n    one:   {color: '#111111'}   # 1\n"
    two = '    # the second\n    two:\n        color: "#222222"\n'
    assert found == FILE.replace(one + two, two + one)


def test_a_map_in_one_line_is_changed_too():
    text = '{"a": 1, "b": {"c": "x", "d": [1]}} # all\n'
    assert edit(text, ("set", ("a",), 2)) == text.replace("1,", "2,", 1)
    assert yaml.safe_load(edit(text, ("set", ("e",), "y")))["e"] == "y"
    assert edit(text, ("delete", ("a",))) == '{"b": {"c": "x", "d": [1]}} # all\n'
    assert edit(text, ("reorder", ("b",), ["d", "c"])) == text.replace(
        '"c": "x", "d": [1]', '"d": [1], "c": "x"'
    )
    assert edit("{}\n", ("set", ("a",), 1)) == "{a: 1}\n"


def test_what_is_no_map_is_left_alone():
    with pytest.raises(Conflict, match="by hand"):
        edit("- a\n", ("set", ("a",), 1))
    with pytest.raises(Conflict, match="by hand"):
        edit("a: x\n", ("set", ("a", "b"), 1))


LIST = """\
# The list.
list:   # of things
  # the first
  - name: a
    deep:
      one: 1   # uno
    # closes a
  # the second
  - {name: b}
  # the end of the list
other: 1
"""


def test_a_new_item_stands_below_the_last_one():
    found = edit(LIST, ("append_item", ("list",), {"name": "c", "deep": {"one": 3}}))
    assert found == LIST.replace(
        "  - {name: b}\n", "  - {name: b}\n  - name: 'c'\n    deep: {one: 3}\n"
    )


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("", "list:\n  - name: 'c'\n"),
        ("# mine\nx: 1", "# mine\nx: 1\nlist:\n  - name: 'c'\n"),
        ("list:\nx: 1\n", "list:\n  - name: 'c'\nx: 1\n"),
        ("list: # none\n# yet\n", "list: # none\n  - name: 'c'\n# yet\n"),
        ("list: []  # none\nx: 1\n", "list:  # none\n  - name: 'c'\nx: 1\n"),
        ("list: null", "list:\n  - name: 'c'\n"),
        ("list:\n- name: a", "list:\n- name: a\n- name: 'c'\n"),
        ("list: [{name: a}]\n", "list: [{name: a}, {name: 'c'}]\n"),
        ("{list: []}", "{list: [{name: 'c'}]}"),
        ("{x: 1}", "{x: 1, list: [{name: 'c'}]}"),
        ("list:\r\n- name: a\r\n", "list:\r\n- name: a\r\n- name: 'c'\r\n"),
    ],
)
def test_a_list_gets_its_first_item_and_others_in_its_own_manner(text, after):
    assert edit(text, ("append_item", ("list",), {"name": "c"})) == after


def test_an_item_is_inserted_above_the_comments_of_the_one_it_precedes():
    new, lines = {"name": "c", "deep": {"one": 3}}, "  - name: 'c'\n    deep: {one: 3}\n"
    first, second = "  # the first\n", "  # the second\n"
    assert edit(LIST, ("insert_item", ("list",), 0, new)) == LIST.replace(first, lines + first)
    assert edit(LIST, ("insert_item", ("list",), 1, new)) == LIST.replace(second, lines + second)
    assert edit(LIST, ("insert_item", ("list",), 2, new)) == edit(
        LIST, ("append_item", ("list",), new)
    )
    assert edit("", ("insert_item", ("list",), 0, {"a": 1})) == "list:\n  - a: 1\n"
    flow = edit("list: [{a: 1}, {b: 2}]\n", ("insert_item", ("list",), 1, {"c": 3}))
    assert flow == "list: [{a: 1}, {c: 3}, {b: 2}]\n"


def test_an_item_leaves_with_its_comments():
    left = edit(LIST, ("remove_item", ("list",), 0))
    assert left == LIST.replace("  # the first\n  - name: a\n    deep:\n      one: 1   # uno\n", "")
    left = edit(LIST, ("remove_item", ("list",), 1))
    assert left == LIST.replace("  # the second\n  - {name: b}\n", "")
    left = edit(LIST, ("remove_item", ("list",), 0), ("remove_item", ("list",), 0))
    assert yaml.safe_load(left) == {"list": [], "other": 1}
    assert edit("list: [{a: 1}, {a: 2}]\n", ("remove_item", ("list",), 0)) == "list: [{a: 2}]\n"


def test_a_heading_stays_when_the_item_below_it_leaves():
    text = "list:\n  # --- cheap ---\n\n  # a's\n  - name: a\n\n  # --- dear ---\n\n  - name: b\n"
    left = edit(text, ("remove_item", ("list",), 0))
    assert left == "list:\n  # --- cheap ---\n\n\n  # --- dear ---\n\n  - name: b\n"
    left = edit(text, ("remove_item", ("list",), 1))
    assert left == text.removesuffix("  - name: b\n")


def test_a_value_in_an_item_changes_alone():
    found = edit(LIST, ("set", ("list", 0, "deep", "one"), 9), ("set", ("list", 1, "new"), True))
    assert found == LIST.replace("one: 1", "one: 9").replace("{name: b}", "{name: b, new: true}")
    found = edit(LIST, ("set", ("list", 0, "deep"), {}), ("set", ("list", 0, "x"), "y"))
    assert found == LIST.replace("one: 1   # uno", "{}   # uno\n    x: 'y'")


def test_what_is_no_list_is_left_alone():
    for text in ("list: x\n", "list: {a: 1}\n", "- a\n"):
        with pytest.raises(Conflict, match="by hand"):
            edit(text, ("append_item", ("list",), {"name": "c"}))
        with pytest.raises(Conflict, match="by hand"):
            edit(text, ("remove_item", ("list",), 0))
    with pytest.raises(Conflict, match="by hand"):
        edit("list:\n-\n  name: a\n", ("remove_item", ("list",), 0))


words = st.text(
    st.characters(codec="utf-8", exclude_characters="\x85\u2028\u2029\ufeff"), max_size=20
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)
@given(st.sampled_from(["host", "port", "hosts", "note", "map", "last", "new"]), values)
def test_any_value_is_read_as_it_was_meant_and_the_others_stay(name, value):
    before = yaml.safe_load(FILE)
    assert yaml.safe_load(edit(FILE, ("set", (name,), value))) == {**before, name: value}


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.just("append"), st.dictionaries(st.sampled_from("abc"), values, min_size=1))
        | st.tuples(st.just("insert"), st.dictionaries(st.sampled_from("abc"), values, min_size=1))
        | st.tuples(st.just("remove"), st.integers(0, 3)),
        max_size=6,
    ),
    st.sampled_from([LIST, "list: []\n", "{list: [{a: 1}, {b: 2}]}", "x: 1"]),
)
def test_any_items_come_and_go_and_the_others_stay(steps, text):
    expected = yaml.safe_load(text)
    for step, what in steps:
        items = expected.setdefault("list", [])
        if step == "append":
            items.append(what)
        elif step == "insert":
            place = len(items) // 2
            items.insert(place, what)
            text = edit(text, ("insert_item", ("list",), place, what))
            assert yaml.safe_load(text) == expected
            continue
        elif what < len(items):
            del items[what]
        else:
            continue
        text = edit(text, (f"{step}_item", ("list",), what))
        assert yaml.safe_load(text) == expected


# The whole file.


def load(data: bytes) -> dict[str, object]:
    found = yaml.safe_load(data) or {}
    if "bad" in found:
        raise ConfigError([ConfigProblem("f.yml", 1, "bad")])
    return found


def rewrite(path: Path, value: object, name: str = "a", fits=lambda *_: True):
    return yaml_editor.edit_yaml_file(str(path), load, lambda text: text.set((name,), value), fits)


def test_a_file_is_made_and_keeps_its_mode(tmp_path):
    path = tmp_path / "new" / "f.yml"
    assert rewrite(path, 1) == {"a": 1}
    assert path.stat().st_mode & 0o777 == 0o644
    path.chmod(0o600)
    rewrite(path, 2)
    assert path.read_text() == "a: 2\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_nothing_is_written_when_nothing_changes_or_the_change_is_refused(tmp_path):
    path = tmp_path / "f.yml"
    path.write_text("a: '1'\n")
    before = document.get_stamp(str(path))
    rewrite(path, "1")
    with pytest.raises(ConfigError):
        rewrite(path, 1, "bad")
    with pytest.raises(Conflict, match="by hand"):
        rewrite(path, 2, fits=lambda *_: False)
    assert document.get_stamp(str(path)) == before


def test_a_file_with_mistakes_is_repaired_by_hand_first(tmp_path):
    path = tmp_path / "f.yml"
    path.write_text("bad: 1\n")
    with pytest.raises(Conflict, match="by hand") as caught:
        rewrite(path, 1)
    assert "f.yml:1: bad" in caught.value.details
    assert path.read_text() == "bad: 1\n"


def test_an_edit_by_somebody_else_meanwhile_stays(tmp_path):
    path = tmp_path / "f.yml"
    path.write_text("a: 1\n")

    def edit_meanwhile(*_: object) -> bool:
        path.write_text("a: 7 # hers\n")
        return True

    with pytest.raises(Conflict, match="somebody else"):
        rewrite(path, 2, fits=edit_meanwhile)
    assert path.read_text() == "a: 7 # hers\n"
