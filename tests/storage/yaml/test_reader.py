"""YAML that a person wrote: typed by the schema, every mistake at once, nothing that surprises."""

import time
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from agentd.core.errors import ConfigError
from agentd.storage.yaml import reader as yaml_reader


class Price(Struct, frozen=True):
    input: Decimal = Decimal(0)


class Model(Struct, frozen=True):
    name: str
    engine: Literal["offline", "native"] = "offline"
    price: Price | None = None
    tags: Annotated[tuple[str, ...], Meta(min_length=1, max_length=2)] = ()


class Shape(Struct, frozen=True, rename={"class_": "class"}):
    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8750
    ratio: Annotated[float, Meta(ge=0, le=1)] = 0.5
    quiet: bool = False
    models: list[Model] = []
    colours: dict[str, str] = {}
    class_: str = ""
    code: Annotated[str, Meta(pattern="[0-9a-f]{4}")] = "0000"
    secret: Annotated[str, Meta(pattern="[0-9a-f]{4}", extra={"secret": True})] = ""
    level: Literal[1, 2] = 1

    def __post_init__(self) -> None:
        if self.host == "nowhere":
            raise ValueError("nowhere is not a host")


def read(text: str | bytes) -> Shape:
    data = text.encode() if isinstance(text, str) else text
    return yaml_reader.load_yaml("agentd.yml", data, Shape)


def read_problems(text: str | bytes) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return [str(problem) for problem in caught.value.problems]


def test_every_kind_is_read():
    shape = read(
        """
host: example.org
port: 80
ratio: 1e-1
quiet: true
models:
  - name: a
    engine: native
    price: {input: 0.25}
    tags: [x, "y"]
  - {name: b, price: ~}
colours:
  red: '#f00'
class: c
level: 2
"""
    )
    assert shape.models == [
        Model("a", "native", Price(Decimal("0.25")), ("x", "y")),
        Model("b"),
    ]
    assert (shape.host, shape.port, shape.ratio, shape.quiet) == ("example.org", 80, 0.1, True)
    assert (shape.colours, shape.class_, shape.level) == ({"red": "#f00"}, "c", 2)


class Open(Struct, frozen=True):
    values: dict[str, Any] = {}


def test_any_value_of_json_is_read_where_the_schema_has_any():
    text = (
        "values: {a: 1, b: -0.5, c: true, d: null, e: no, f: '1', g: [x, {h: 2026-01-01}], i: {}}"
    )
    assert yaml_reader.load_yaml("agentd.yml", text.encode(), Open).values == {
        **{"a": 1, "b": -0.5, "c": True, "d": None, "e": "no", "f": "1"},
        **{"g": ["x", {"h": "2026-01-01"}], "i": {}},
    }
    with pytest.raises(ConfigError, match="twice"):
        yaml_reader.load_yaml("agentd.yml", b"values: {a: {b: 1, b: 2}}", Open)


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "~\n", "{}\n"])
def test_a_file_without_content_has_the_defaults(text):
    assert read(text) == Shape()


@pytest.mark.parametrize(
    "word",
    ["no", "yes", "on", "012", "12:30:45", "1_000", ".nan", "2026-11-21", "1e3", "null", "0x10"],
)
def test_a_word_is_text_where_text_is_expected(word):
    assert read(f"host: {word}").host == word


@pytest.mark.parametrize(
    "value",
    ["no", "012", "12:30:45", "1_000", ".nan", ".inf", "1e3", "0x10", "true", "٣", "+", "7.0", "",
     '"7"', "[7]", "{a: 7}", "9" * 5000],
)  # fmt: skip
def test_only_a_whole_number_is_a_whole_number(value):
    (problem,) = read_problems(f"port: {value}")
    assert problem.startswith("agentd.yml:1: port: found ")
    assert "expected a whole number 0 to 65535" in problem


@pytest.mark.parametrize("value", [".nan", "nan", ".inf", "-.inf", "1e999", "1_0", "1.", "", "x"])
def test_no_number_is_without_a_size(value):
    assert "expected a number 0 to 1" in read_problems(f"ratio: {value}")[0]
    assert (
        "expected a number" in read_problems(f"models: [{{name: a, price: {{input: {value}}}}}]")[0]
    )


@pytest.mark.parametrize("value", ["yes", "no", "on", "True", "1", "'true'", ""])
def test_only_true_and_false_are_truth_values(value):
    assert "expected true or false" in read_problems(f"quiet: {value}")[0]


def test_numbers_stay_within_their_range():
    assert "expected a whole number 0 to 65535" in read_problems("port: 65536")[0]
    assert "expected a number 0 to 1" in read_problems("ratio: 1.5")[0]


def test_a_list_has_as_many_items_as_its_shape_says():
    assert read("models: [{name: a, tags: [x, y]}]").models[0].tags == ("x", "y")
    many = "models:\n  - name: a\n    tags: [x, y, z]\n"
    assert read_problems(many) == [
        "agentd.yml:3: models[0].tags: found 3 items; expected at most 2"
    ]
    none = "models: [{name: a, tags: []}]"
    assert read_problems(none) == ["agentd.yml:1: models[0].tags: expected at least 1 item"]


def test_a_pattern_covers_the_whole_text():
    assert read("code: 00ff").code == "00ff"
    for wrong in ("00fff", '"00ff\\n"', "x00ff"):
        assert "text like" in read_problems(f"code: {wrong}")[0]


def test_every_mistake_is_reported_at_once_with_its_line():
    assert read_problems(
        """# settings
prot: 8750
quiet: maybe
models:
  - engine: natve
    name: a
  - tags: x
host: nowhere
port: 80
port: 81
"""
    ) == [
        'agentd.yml:2: "prot" is not known here; did you mean "port"?',
        'agentd.yml:3: quiet: found "maybe", expected true or false',
        'agentd.yml:5: models[0].engine: found "natve", expected native or offline; '
        'did you mean "native"?',
        'agentd.yml:7: models[1].tags: found "x", expected a list',
        'agentd.yml:7: models[1]: "name" is missing',
        'agentd.yml:10: "port" is given twice, first on line 9',
    ]


def test_what_a_struct_refuses_itself_is_a_mistake():
    assert read_problems("host: nowhere") == ["agentd.yml:1: nowhere is not a host"]


def test_what_a_check_finds_is_reported_with_its_line():
    def check(shape: Shape):
        yield ("models", 1, "name"), "is the second"
        yield ("models", 7, "name"), "is not there"
        yield ("colours", "red"), "is loud"

    text = "colours:\n  red: r\nmodels:\n- name: a\n- engine: native\n  name: b\n"
    with pytest.raises(ConfigError) as caught:
        yaml_reader.load_yaml("f", text.encode(), Shape, check)
    assert caught.value.message.splitlines() == [
        "f:2: colours.red: is loud",
        "f:4: models[7].name: is not there",
        "f:6: models[1].name: is the second",
    ]


def test_names_beside_the_shape_are_passed_over_on_request_but_only_outermost():
    text = b"host: a\nother: {any: [thing]}\n"
    assert yaml_reader.load_yaml("f", text, Shape, ignore_unknown=True) == Shape(host="a")
    with pytest.raises(ConfigError, match="tag"):
        yaml_reader.load_yaml("f", b"models: [{name: a, tag: b}]", Shape, ignore_unknown=True)


def test_a_price_may_be_quoted():
    shape = read("models: [{name: a, price: {input: '0.10'}}]")
    assert str(shape.models[0].price.input) == "0.10"


def test_an_unknown_name_without_a_neighbour_lists_what_is_known():
    assert "(known: host, port," in read_problems("zzzzzz: 1")[0]


def test_a_secret_is_never_shown():
    for text in ("secret: hunter2", "secret: [hunter2]", "secret: {hunter2: 1}"):
        assert "hunter2" not in "".join(read_problems(text))


def test_an_access_key_in_the_wrong_place_is_not_shown():
    key = "agent_" + "aB3" * 10 + "xy"
    for text in (f"port: {key}", f"{key}: 1", f"code: {key}"):
        assert "aB3" not in "".join(read_problems(text))


@pytest.mark.parametrize(
    ("text", "result"),
    [
        (b"host: a\n\tport: 1\n", "2: a tab in the indentation; use spaces"),
        (b"models:\n\t- name: a\n", "2: a tab in the indentation; use spaces"),
        (b"\xef\xbb\xbfhost: a\n", "1: a byte order mark"),
        ("host: a\n".encode("utf-16"), "1: is UTF-16; save the file as UTF-8"),
        (b"port: 1\nhost: caf\xe9\n", "2: byte 0xe9 is not UTF-8"),
        (b"port: 1\nhost: a\x00b\n", "2: the invisible character U+0000"),
        ("# a\u2028port: 1\n".encode(), "1: the invisible character U+2028"),
        (b"a: &x 1\nb: *x\n", "1: an anchor"),
        (b"host: *nobody\n", "1: an alias"),
        (b"port: !!int '7'\n", "1: a tag"),
        (b"host: !secret x\n", "1: a tag"),
        (b"<<: {port: 1}\n", "1: a merge"),
        (b"port: 1\n---\nport: 2\n", "2: a second document"),
        (b"? [a, b]\n: 1\n", "1: a name was expected"),
        (b"- a\n- b\n", "1: found a list, expected a map"),
        (b"just words\n", '1: found "just words", expected a map'),
        (b"host: 'never closed\nport: 1\n", "a quoted scalar that begins in line 1: found"),
        (b"a: 1\nb: [open\n\nc: 1\n", "a flow sequence that begins in line 2: did not find"),
        (b"host: a: b\n", "1: not YAML"),
        (b"host: x" * 400_000, "is larger than 1048576 bytes"),
    ],
)
def test_what_would_hurt_or_deceive_is_a_clear_mistake(text, result):
    assert result in "\n".join(read_problems(text))


def test_windows_line_ends_are_fine():
    assert read(b"host: a\r\nport: 1\r\n") == Shape(host="a", port=1)


@pytest.mark.parametrize(
    "bomb",
    ["[" * 400_000, "{a: " * 250_000, "- " * 500_000, "? " * 500_000, "[{a: " * 100_000],
)
def test_a_bomb_of_nesting_is_refused_before_a_tree_is_built(bomb):
    began = time.process_time()
    assert "nests deeper than 64 levels" in read_problems(bomb)[0]
    assert time.process_time() - began < 5


def test_a_bomb_of_aliases_is_refused():
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 10)]
    assert "an anchor" in read_problems("\n".join(lines))[0]


def test_of_very_many_mistakes_the_first_fifty_are_reported():
    result = read_problems("".join(f"x{n}: 1\n" for n in range(5000)))
    assert len(result) == 51
    assert result[-1] == "agentd.yml:51: and more from here on"


@given(st.binary(max_size=200) | st.text(alphabet="ab:-[]{}#&*!|>'\"%@`\n \t<?,", max_size=80))
def test_any_bytes_are_a_shape_or_mistakes(text):
    data = text.encode() if isinstance(text, str) else text
    try:
        assert isinstance(yaml_reader.load_yaml("f", data, Shape), Shape)
    except ConfigError as error:
        assert error.problems


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"])))
def test_quoted_text_comes_back_exactly(text):
    quoted = text.replace("'", "''").replace("\ufeff", "").replace("\ufffe", "")
    quoted = quoted.replace("\uffff", "")
    assert read(f"host: '{quoted}x'").host == quoted.replace("''", "'") + "x"
