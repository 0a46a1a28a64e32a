"""The commands that read the ledger at a terminal, with and without a running daemon."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from agentd.cli.main import main
from agentd.core.clock import SystemClock, format_iso, parse_iso
from agentd.gateway.ledger.ledger import Ledger
from agentd.llm.price import Usage
from agentd.storage.checksummed_json import encode_checksummed
from agentd.storage.layout import Layout
from tests.gateway.ledger.entries import build_record
from tests.support.daemon import at_noon


@pytest.fixture
def requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Three requests of today, one of a week ago, and one of a year ago."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith(("AGENT", "XDG_", "STATE_DIR", "CONFIGURATION_DIR")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AGENTD_STATE", "state")
    monkeypatch.setenv("AGENTD_CONFIG", "config")

    async def book(now: datetime):
        ledger = Ledger(Layout("state", "config"), SystemClock())
        await ledger.open()
        for number, (days, key, cost) in enumerate(
            ((365, "a", "9"), (7, "a", "0.5"), (0, "a", "0.25"), (0, "b", "1.125"), (0, "b", "0"))
        ):
            await ledger.add_record(
                build_record(
                    number,
                    format_iso(now - timedelta(days)),
                    key=key * 12,
                    key_name={"a": "laptop", "b": "ro\x1bbot"}[key],
                    owner="ann" if key == "a" else "",
                    tags=("nightly", "batch") if key == "b" else (),
                    cost=Decimal(cost),
                    usage=Usage(input=1000, output=50),
                    outcome="ok" if cost != "0" else "refused",
                    error="" if cost != "0" else "limit_day",
                )
            )
        await ledger.close()

    with at_noon() as noon:
        asyncio.run(book(parse_iso(noon)))
        yield


pytestmark = pytest.mark.usefixtures("requests")


def read_rows(capsys) -> list[list[str]]:
    """Return the words of each line of the table, above the line that names the time zone."""
    *lines, zone = capsys.readouterr().out.splitlines()
    assert zone.endswith(", days in UTC")
    return [line.split() for line in lines]


def test_spend_shows_the_keys_of_the_last_days_the_dearest_first(capsys):
    assert main(["proxy", "spend"]) == 0
    assert read_rows(capsys) == [
        ["KEY", "REQUESTS", "ERRORS", "TOKENS", "IN", "TOKENS", "OUT", "USD"],
        ["ro�bot", "2", "1", "2000", "100", "1.125000"],
        ["laptop", "2", "0", "2000", "100", "0.750000"],
        ["total", "4", "1.875000"],
    ]


def test_spend_by_owner_and_tag_is_what_keys_had_when_they_spent(capsys):
    assert main(["proxy", "spend", "--by", "owner"]) == 0
    _, first, second, _ = read_rows(capsys)
    assert (first[0], first[-1]) == ("(none)", "1.125000")
    assert (second[0], second[-1]) == ("ann", "0.750000")
    assert main(["proxy", "spend", "--by", "tag"]) == 0
    _, *rows, total = read_rows(capsys)
    assert {row[0]: row[1] for row in rows} == {"nightly": "2", "batch": "2", "(none)": "2"}
    assert total == ["total", "4", "1.875000"]
    assert main(["proxy", "spend", "--owner", "ann", "--by", "model"]) == 0
    assert read_rows(capsys)[-1] == ["total", "2", "0.750000"]


def test_log_of_an_owner_or_a_tag(capsys):
    for option, expected in ((["--owner", "ann"], 3), (["--tag", "batch"], 2), (["--tag", "x"], 0)):
        assert main(["proxy", "log", *option]) == 0
        assert len(capsys.readouterr().out.splitlines()) == expected


def test_budgets_show_what_the_keys_of_their_owner_or_tag_spent(capsys):
    main(["proxy", "budget", "add", "Ann", "--owner", "ann", "--month", "100"])
    main(["proxy", "budget", "add", "Nightly", "--tag", "nightly", "--day", "2"])
    main(["proxy", "budget", "add", "Unused", "--tag", "unused", "--day", "2"])
    capsys.readouterr()
    main(["proxy", "budget", "list", "--json"])
    spent = {one["name"]: one["spent"] for one in json.loads(capsys.readouterr().out)}
    assert (spent["Ann"]["day"], spent["Ann"]["total"]) == ("0.25", "9.75")
    assert spent["Nightly"] == dict.fromkeys(("day", "week", "month", "total"), "1.125")
    assert spent["Unused"]["total"] == "0"
    main(["proxy", "budget", "list"])
    rows = capsys.readouterr().out.splitlines()
    assert rows[2].endswith("day 1.1250, week 1.1250, month 1.1250, total 1.1250")
    main(["proxy", "budget", "show", "Nightly"])
    assert '"total": "1.125"' in capsys.readouterr().out


def test_spend_by_day_counts_back_from_today(capsys):
    assert main(["proxy", "spend", "--by", "day", "--days", "7"]) == 0
    _, *days, total = read_rows(capsys)
    assert [day[0] for day in days] == [SystemClock().now()[:10]]
    assert total == ["total", "3", "1.375000"]


def test_spend_in_json_has_exact_money(capsys):
    assert main(["proxy", "spend", "--by", "model", "--days", "400", "--json"]) == 0
    (line,) = json.loads(capsys.readouterr().out)
    assert (line["name"], line["cost"], line["requests"]) == ("large", "10.875", 5)


def test_log_shows_the_last_requests_the_newest_last_and_nothing_a_terminal_obeys(capsys):
    assert main(["proxy", "log", "-n", "2"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    first, second = out.splitlines()
    assert "ro�bot  large by one  ok  40 ms  1000+50 tokens  1.125000 USD" in first
    assert "refused (limit_day)" in second


@pytest.mark.parametrize("key", ["laptop", "a" * 12])
def test_log_knows_a_key_by_its_name_or_id(capsys, key):
    assert main(["proxy", "log", "--key", key, "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["id"] for one in found] == ["r-0", "r-1", "r-2"]
    assert found[1]["cost"] == "0.5"


def test_log_of_one_outcome(capsys):
    assert main(["proxy", "log", "--outcome", "refused"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_asking_changes_no_file(capsys):
    before = {path: path.stat().st_mtime_ns for path in Path("state").rglob("*")}
    main(["proxy", "spend"])
    main(["proxy", "log"])
    assert {path: path.stat().st_mtime_ns for path in Path("state").rglob("*")} == before


def test_without_a_ledger_reports_are_empty_and_nothing_fails(capsys, monkeypatch):
    monkeypatch.setenv("AGENTD_STATE", "elsewhere")
    assert main(["proxy", "spend"]) == 0
    assert read_rows(capsys)[-1] == ["total", "0", "0.000000"]
    for options, result in (([], "no requests yet\n"), (["--key", "x"], "no matching requests\n")):
        assert main(["proxy", "log", *options]) == 0
        assert capsys.readouterr() == ("", result)
    assert not Path("elsewhere").exists()


@pytest.mark.parametrize("wrong", ["0", "-1", "x", "1000000"])
def test_a_count_that_is_none_is_wrong_usage(wrong):
    assert main(["proxy", "log", "-n", wrong]) == 2


def test_the_log_is_followed() -> None:
    command = [sys.executable, "-m", "agentd", "proxy", "log", "-n", "1", "--follow", "--json"]
    layout = Layout("state", "config")
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=os.getcwd()) as following:
        assert following.stdout
        assert json.loads(following.stdout.readline())["id"] == "r-4"
        now = format_iso(datetime.now(UTC))  # the program's own clock is not stopped
        path = Path(layout.get_ledger_day_path(now[:10]))
        with path.open("ab") as file:
            for number, key in ((10, "laptop"), (11, "robot")):
                file.write(encode_checksummed(build_record(number, now, key_name=key)))
        ids = [json.loads(following.stdout.readline())["id"] for _ in range(2)]
        following.send_signal(signal.SIGINT)
    assert ids == ["r-10", "r-11"]
