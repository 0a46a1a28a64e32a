"""Lists page by page: what a page holds is what a look at each entry would find."""

from typing import NamedTuple
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tornado.httputil import HTTPHeaders

from agentd.core.errors import BadRequest
from agentd.gateway.admin.api.listing import ResourceListing
from agentd.http.access import ANONYMOUS
from agentd.http.request import Request


class Thing(NamedTuple):
    """A listed resource."""

    name: str
    enabled: bool


NAMES = st.text("aAbß-", min_size=1, max_size=4)
THINGS = st.lists(st.builds(Thing, NAMES, st.booleans()), unique_by=lambda one: one.name)


@given(THINGS, st.sampled_from(("", "a", "A", "b", "SS", "-b", "\n", "a\nb")),
       st.sampled_from((None, True, False)), st.integers(1, 3))  # fmt: skip
def test_the_pages_hold_each_that_fits_once_and_in_order(
    things: list[Thing], part: str, enabled: bool | None, limit: int
) -> None:
    fits = [
        one
        for one in sorted(things)
        if part.casefold() in one.name.casefold() and enabled in (None, one.enabled)
    ]
    listing = _build_listing(things)
    wish = {"limit": str(limit), "name": part}
    if enabled is not None:
        wish["enabled"] = str(enabled).lower()

    result, cursor = listing.get_page(_build_request(wish))
    found = list(result)
    while cursor:
        assert len(result) == limit
        result, cursor = listing.get_page(_build_request({**wish, "cursor": cursor}))
        found += result
    assert found == fits


@pytest.mark.parametrize("part", ["CAFÉ", "cafe\u0301", "é"])
def test_a_name_is_found_however_its_accents_are_written(part: str) -> None:
    things = [Thing("cafe\u0301", True), Thing("café", True), Thing("cafe", True)]
    found, _ = _build_listing(things).get_page(_build_request({"name": part}))
    assert {one.name for one in found} == {"cafe\u0301", "café"}


def test_a_cursor_of_an_entry_that_is_gone_goes_on_behind_it() -> None:
    listing = _build_listing([Thing(name, True) for name in ("a", "c", "ca")])

    assert listing.get_page(_build_request({"cursor": "b"}))[0] == [
        Thing("c", True),
        Thing("ca", True),
    ]
    assert listing.get_page(_build_request({"cursor": "x", "name": "c"}))[0] == []


def test_a_page_holds_fifty_unless_another_number_up_to_two_hundred_is_asked_for() -> None:
    listing = _build_listing([Thing(f"{number:03}", True) for number in range(300)])
    for wish, count in (({}, 50), ({"limit": "1"}, 1), ({"limit": "200"}, 200)):
        found, cursor = listing.get_page(_build_request(wish))
        assert (len(found), cursor) == (count, found[-1].name)
    for limit in ("0", "201", "-1", "1.0", "+5", ""):
        with pytest.raises(BadRequest, match="from 1 to 200"):
            listing.get_page(_build_request({"limit": limit}))


def test_what_changed_is_listed_again() -> None:
    things = [Thing("a", True)]
    version = object()
    listing = ResourceListing(lambda: version, lambda: things, lambda one: one.name, lambda _: True)
    assert listing.get_page(_build_request({"enabled": "true"}))[0] == things

    things, version = [Thing("b", True)], object()
    assert listing.get_page(_build_request({"enabled": "true"}))[0] == things


def _build_listing(things: list[Thing]) -> ResourceListing[Thing]:
    return ResourceListing(
        lambda: things, lambda: things, lambda one: one.name, lambda one: one.enabled
    )


def _build_request(query: dict[str, str]) -> Request:
    return Request("GET", "/", urlencode(query), {}, HTTPHeaders(), ANONYMOUS, "127.0.0.1")
