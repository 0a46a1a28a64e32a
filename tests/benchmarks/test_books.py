"""A history that is made for measuring is one that the daemon would have left."""

import os
from os.path import join
from pathlib import Path

import pytest

from agentd.gateway.keys.file import AccessKeyFile
from agentd.gateway.ledger.daily_reports import DailyReports
from agentd.gateway.ledger.daily_totals import RequestTotals
from agentd.gateway.reports import reports
from agentd.gateway.reports.reports import GroupBy, ReportTable
from agentd.storage.layout import Layout
from tests.benchmarks.books import DAYS, Books
from tests.benchmarks.large_gateway import LargeGateway


@pytest.fixture(name="books")
def _books(tmp_path: Path) -> Books:
    gateway = LargeGateway(Layout(str(tmp_path / "state"), str(tmp_path / "config")), 3, 2, 5)
    books = Books(gateway, DAYS * 20)
    books.fill()
    return books


def test_the_reports_of_every_day_are_what_its_lines_add_up_to(books: Books) -> None:
    result = [_build_totals(books, by) for by in ("day", "key", "model")]

    for name in os.listdir(books.layout.ledger_reports):
        os.unlink(join(books.layout.ledger_reports, name))
    assert [_build_totals(books, by) for by in ("day", "key", "model")] == result
    assert result[0].total.requests == DAYS * 20


def test_the_reports_are_believed_as_they_are(books: Books) -> None:
    before = {name: os.stat(join(books.layout.ledger_reports, name)).st_ino
              for name in os.listdir(books.layout.ledger_reports)}  # fmt: skip
    _build_totals(books, "day")

    for name, inode in before.items():
        assert os.stat(join(books.layout.ledger_reports, name)).st_ino == inode


def test_every_access_key_is_valid(books: Books) -> None:
    kept = AccessKeyFile(books.layout).read()

    assert not kept.problems
    assert len(kept.keys) == 5


def _build_totals(books: Books, by: GroupBy) -> ReportTable[RequestTotals]:
    days = DailyReports(books.layout, lambda: "2999-01-01")
    return reports.build_totals(by, days.iter_days(str(books.first), str(books.last)))
