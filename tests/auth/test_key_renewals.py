"""Regenerated keys on their way: which old one is still valid, and what is remembered for it."""

from pathlib import Path

import pytest

from agentd.auth.key import Renewal
from agentd.auth.key_renewals import RenewalFile

SALT = "0" * 32
OLD, NEW, NEWER, OTHER = ("1" * 64, "2" * 64, "3" * 64, "4" * 64)
FIRST = Renewal("laptop", NEW, SALT, OLD)
SECOND = Renewal("laptop", NEWER, SALT, OLD)
FOREIGN = Renewal("phone", OTHER, SALT, "5" * 64)


@pytest.fixture
def file(tmp_path: Path) -> "RenewalFile[Renewal]":
    return RenewalFile(str(tmp_path / "renewals.json"), Renewal)


def test_an_old_key_is_valid_until_the_new_one_is_delivered(file: "RenewalFile[Renewal]") -> None:
    file.add(FIRST, {NEW})
    assert file.find_active({NEW}, ()) == (FIRST,)
    file.mark_delivered(NEW)
    assert file.find_active({NEW}, ()) == ()
    file.mark_undelivered(NEW)
    assert file.find_active({NEW}, ()) == (FIRST,)


def test_an_old_key_is_refused_once_it_is_revoked_or_the_new_one_is_gone(
    file: "RenewalFile[Renewal]",
) -> None:
    file.add(FIRST, {NEW})
    assert file.find_active({NEW}, {OLD}) == ()
    assert file.find_active({OTHER}, ()) == ()
    assert file.find_active({NEW}, {NEW, OTHER}) == (FIRST,), "the new one is looked at elsewhere"


def test_a_delivery_ends_the_renewals_of_that_name_up_to_it(file: "RenewalFile[Renewal]") -> None:
    for one in (FIRST, FOREIGN, SECOND):
        file.add(one, {NEW, NEWER, OTHER})
    assert file.find_up_to("laptop", NEW) == (FIRST,)
    assert file.find_up_to("laptop", NEWER) == (FIRST, SECOND)
    assert file.find_up_to("laptop", OTHER) == ()
    assert file.find_up_to("phone", OTHER) == (FOREIGN,)


def test_what_belongs_to_no_key_is_forgotten_but_for_the_same_name(
    file: "RenewalFile[Renewal]",
) -> None:
    file.add(FIRST, {NEW})
    file.add(FOREIGN, {NEW, OTHER})
    file.add(SECOND, {NEWER})
    assert file.read() == (FIRST, SECOND)


def test_only_what_has_ended_is_removed_and_nothing_is_written_for_nothing(
    file: "RenewalFile[Renewal]",
) -> None:
    file.remove([FIRST])
    assert not Path(file.path).exists()
    file.add(FIRST, {NEW})
    file.add(FOREIGN, {NEW, OTHER})
    file.remove([FIRST])
    assert file.read() == (FOREIGN,)
