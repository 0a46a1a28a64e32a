"""A body of another form is told with its place, and with what would be right there."""

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import UNSET, Meta, Struct, UnsetType

from agentd.http.validation_errors import (
    explain_validation_error,
    prepend_to_path,
    spell_path,
)

Name = Annotated[str, Meta(pattern="^[a-z]+$", extra={"form": "small letters"})]


class Inner(Struct, forbid_unknown_fields=True, rename="camel"):
    color: Literal["red", "green"] = "red"
    full_name: Name = "x"
    bare: Annotated[str, Meta(pattern="^x")] = "x"


class Body(Struct, forbid_unknown_fields=True):
    mode: Literal["a", ""] = ""
    inner: Inner | UnsetType | None = UNSET
    items: tuple[Inner, ...] = ()
    by_name: dict[str, Inner] = {}
    nested: list[dict[str, Literal["one", "two"] | None]] = []
    names: list[Name] = []
    by_small_name: dict[Name, int] = {}


def explain_error(body: dict[str, Any]) -> str:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(body, Body)
    return explain_validation_error(str(caught.value), Body)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ({"itms": []}, 'unknown field `itms`; did you mean "items"?'),
        (
            {"zzz": 1},
            "unknown field `zzz`"
            " (known: mode, inner, items, by_name, nested, names, by_small_name)",
        ),
        ({"inner": {"full_name": "x"}}, '`full_name` - at `$.inner`; did you mean "fullName"?'),
        ({"items": [{}, {"colr": 1}]}, '`colr` - at `$.items[1]`; did you mean "color"?'),
        ({"by_name": {"a b": {"fullname": 1}}}, 'at `$.by_name[...]`; did you mean "fullName"?'),
        ({"items": [{"color": "rde"}]}, '`$.items[0].color`; did you mean "red"?'),
        ({"inner": {"color": "blue"}}, "'blue' - at `$.inner.color` (known: green, red)"),
        ({"nested": [{"k": "tow"}]}, "'tow' - at `$.nested[0][...]`; did you mean \"two\"?"),
        ({"inner": {"fullName": "X"}}, "Expected small letters - at `$.inner.fullName`"),
        ({"by_small_name": {"X": 1}}, "Expected small letters - at `key` in `$.by_small_name`"),
        ({"mode": "zzz"}, "'zzz' - at `$.mode` (known: \"\", a)"),
        ({"names": ["X"]}, "Expected small letters - at `$.names[0]`"),
        ({"inner": {"bare": "y"}}, "Expected `str` matching regex '^x' - at `$.inner.bare`"),
        ({"items": 5}, "Expected `array`, got `int` - at `$.items`"),
    ],
)
def test_the_place_is_reported_and_what_is_known_there(body: dict[str, Any], what: str) -> None:
    assert explain_error(body).endswith(what)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "Object contains unknown field `a`` - at `$.b` - at `$.c.d[0]`",
        "Invalid enum value ''' - at `$.[[.]`",
        "Expected `str` matching regex '' - at `$`",
    ],
)
def test_no_words_are_too_odd(words: str) -> None:
    assert explain_validation_error(words, Body).startswith(words)


@pytest.mark.parametrize(
    ("message", "name", "whole"),
    [
        ("no", "inner", "no - at `$.inner`"),
        ("no - at `$.color`", "inner", "no - at `$.inner.color`"),
        ("no - at `$[1].color`", "items", "no - at `$.items[1].color`"),
    ],
)
def test_a_member_is_put_before_the_place_in_it(message: str, name: str, whole: str) -> None:
    assert prepend_to_path(message, name) == whole


@pytest.mark.parametrize(
    ("place", "spelled"),
    [
        ("$.inner.full_name", "$.inner.fullName"),
        ("$.inner.fullName", "$.inner.fullName"),
        ("$.items[1].full_name", "$.items[1].fullName"),
        ("$.by_name[...].full_name", "$.by_name[...].fullName"),
        ("$.full_name", "$.full_name"),
        ("$", "$"),
    ],
)
def test_a_place_has_the_names_of_the_body(place: str, spelled: str) -> None:
    assert spell_path(f"x - at `{place}`", Body) == f"x - at `{spelled}`"
    assert spell_path("full_name", Body) == "full_name"
