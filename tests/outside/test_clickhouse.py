"""The analytics database: a real one, and the very words for newer ones."""

import asyncio
import gzip
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec import structs

from agentd.errors import DatabaseRefused, SupplierUnreachable, Unavailable
from agentd.outside.clickhouse import ClickHouses
from agentd.proxy.export import sql
from agentd.proxy.export.rows import COLUMNS, line
from agentd.proxy.settings import Export
from tests.outside.clickhouse import PASSWORD, Server, serving
from tests.outside.loopback import OK, supplier
from tests.ports import free_port
from tests.proxy.entries import entry

DAY, SOURCE = "2026-01-01", "a1b2"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("clickhouse")) as found:
        yield found


@pytest.fixture(autouse=True)
def _empty(request):
    """No table is left over."""
    yield
    if "server" in request.fixturenames:
        request.getfixturevalue("server").ask("DROP TABLE IF EXISTS agentd_requests")


async def password_of(to: Export) -> str:
    return to.password


HOUSES = ClickHouses(password_of)


def run(to: Export, *steps):
    """What each step answers, over one database."""

    async def running():
        async with HOUSES.open(to) as database:
            return [await step(database) for step in steps]

    return asyncio.run(running())


def packed(*entries, version=1) -> bytes:
    return gzip.compress(b"".join(line(one, DAY, SOURCE, version) for one in entries))


def insert(*entries):
    return lambda database: database.insert(packed(*entries), "t")


def count(database):
    return database.count(SOURCE, "2026-01-01", "2026-01-31")


def test_the_table_is_made_and_filled_counted_and_a_day_taken_out(server: Server):
    told = run(
        server.settings(),
        count,
        insert(*map(entry, range(3))),
        count,
        lambda database: database.drop("other", DAY),
        count,
        lambda database: database.drop(SOURCE, DAY),
        lambda database: database.drop(SOURCE, DAY),
        count,
    )
    assert [told[0], told[2], told[4], told[7]] == [{}, {DAY: 3}, {DAY: 3}, {}]


def test_each_column_is_there_and_holds_what_was_sent(server: Server):
    run(server.settings(), insert(entry(7, key_name='=x"\n\u2028é')))
    (row,) = server.rows()
    assert list(row) == [column.name for column in COLUMNS]
    assert (row["request_id"], row["at"]) == ("r-7", "2026-01-01 00:00:00.000")
    assert row["key_name"] == '=x"\n\u2028é'
    assert row["cost"] == 0.25


def test_an_older_table_gets_the_columns_that_it_lacks_and_keeps_its_rows(server: Server):
    run(server.settings(), insert(entry(1)))
    server.ask("ALTER TABLE agentd_requests DROP COLUMN sent, DROP COLUMN hidden_rules")
    assert "it lacks sent, hidden_rules" in asyncio.run(HOUSES.check(server.settings()))[-1].told
    run(server.settings(), insert(entry(2, hidden={"jwt": 2})))
    assert [row["hidden_rules"] for row in server.rows()] == [[], ["jwt"]]
    assert asyncio.run(HOUSES.check(server.settings()))[-1].told.endswith("in order")


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("ENGINE = MergeTree PARTITION BY (source, day) ORDER BY day", "its engine is MergeTree"),
        ("ENGINE = ReplacingMergeTree PARTITION BY day ORDER BY day", "it is partitioned by day"),
    ],
)
def test_a_table_that_is_not_ours_is_left_alone(server: Server, table: str, why: str):
    server.ask(f"CREATE TABLE agentd_requests (day Date, source String) {table}")
    with pytest.raises(DatabaseRefused, match=why):
        run(server.settings())
    *_, rung = asyncio.run(HOUSES.check(server.settings()))
    assert (rung.name, rung.passed) == ("table", False)
    assert "export.table" in rung.told


@pytest.mark.parametrize(
    ("more", "code", "hint"),
    [
        ({"password": "wrong-password"}, 193, "export.password"),
        ({"user": "nobody"}, 192, "export.user"),
        ({"database": "nowhere"}, 81, "CREATE DATABASE"),
    ],
)
def test_who_may_not_in_is_told_why_and_what_to_do(server: Server, more, code: int, hint: str):
    with pytest.raises(DatabaseRefused) as caught:
        run(structs.replace(server.settings(), **more))
    assert caught.value.code == code
    assert hint in caught.value.details
    assert "wrong-password" not in str(caught.value)


def test_a_check_climbs_step_by_step_and_makes_nothing(server: Server):
    rungs = asyncio.run(HOUSES.check(server.settings()))
    assert [(rung.name, rung.passed) for rung in rungs] == [
        ("reach", True),
        ("sign_in", True),
        ("table", True),
    ]
    assert rungs[-1].told.endswith("it will be made")
    assert server.ask("EXISTS TABLE agentd_requests") == "0\n"
    rungs = asyncio.run(HOUSES.check(structs.replace(server.settings(), user="x")))
    assert [(rung.name, rung.passed) for rung in rungs] == [("reach", True), ("sign_in", False)]


def test_a_database_that_is_gone_is_told_by_its_host():
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(SupplierUnreachable, match="cannot be connected to"):
        run(Export(url=url))
    (rung,) = asyncio.run(HOUSES.check(Export(url=url)))
    assert (rung.name, rung.passed) == ("reach", False)
    (rung,) = asyncio.run(HOUSES.check(Export()))
    assert (rung.name, rung.passed) == ("settings", False)


NEW = b"insert_deduplication_token\nasync_insert\ninput_format_parallel_parsing\n"
NEW += b"input_format_skip_unknown_fields\ninsert_deduplicate\nDateTime64\n"
NEW += b"non_replicated_deduplication_window\n"


def answered(body: bytes, head=OK) -> bytes:
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


@asynccontextmanager
async def scripted(*answers: bytes):
    """A server that gives these answers; ``heard`` are the requests."""
    heard: list[bytes] = []
    left = list(answers)

    async def behave(one):
        while left:
            heard.append(await one.heard())
            one.say(left.pop(0))

    async with supplier(behave) as there:
        yield Export(url=f"{there.url}/way", user="u", password=PASSWORD), heard


def of(request: bytes) -> tuple[str, dict[str, str], dict[str, str], bytes]:
    """First line, parameters, headers and body."""
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    method, target, _ = first.split(" ")
    parts = urlsplit(target)
    query = {name: value for name, (value,) in parse_qs(parts.query).items()}
    return f"{method} {parts.path}", query, dict(one.split(": ") for one in lines), body


def test_a_newer_server_is_told_all_that_makes_a_row_be_there_once():
    async def running():
        ok = answered(b"")
        async with scripted(answered(NEW), ok, ok, ok, answered(b"2026-01-01\t3\n")) as (to, heard):
            async with HOUSES.open(to) as database:
                await database.insert(b"rows", "the-token")
                assert await database.count(SOURCE, DAY, DAY) == {DAY: 3}
            return heard

    asked = list(map(of, asyncio.run(running())))
    assert {first for first, *_ in asked} == {"POST /way/"}
    knows, found, made, inserted, counted = (query for _, query, _, _ in asked)
    always = {"database": "default", "wait_end_of_query": "1"}
    assert knows == {**always, "query": sql.KNOWLEDGE}
    assert found["query"].startswith("SELECT engine, partition_key FROM system.tables")
    assert made["query"].startswith("CREATE TABLE IF NOT EXISTS `agentd_requests` (`day` Date, ")
    assert "`at` DateTime64(3, 'UTC')" in made["query"]
    assert "`model` LowCardinality(String)" in made["query"]
    assert made["query"].endswith(
        " ENGINE = ReplacingMergeTree(export_version) PARTITION BY (source, day)"
        " ORDER BY (day, request_id) SETTINGS non_replicated_deduplication_window = 10000"
    )
    assert inserted == {
        **always,
        "query": "INSERT INTO `agentd_requests` FORMAT JSONEachRow",
        "insert_deduplicate": "1",
        "insert_deduplication_token": "the-token",
        "async_insert": "0",
        "input_format_parallel_parsing": "0",
        "input_format_skip_unknown_fields": "1",
    }
    assert counted["query"] == (
        "SELECT toString(day), count() FROM `agentd_requests` WHERE source = 'a1b2' AND"
        " day >= toDate('2026-01-01') AND day <= toDate('2026-01-01') GROUP BY day FORMAT TSV"
    )
    for _, _, headers, _ in asked:
        assert (headers["x-clickhouse-user"], headers["x-clickhouse-key"]) == ("u", PASSWORD)
    assert (asked[3][2]["content-encoding"], asked[3][3]) == ("gzip", b"rows")


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (
            answered(
                b"Code: 252. DB::Exception: Too many parts (300). (TOO_MANY_PARTS) (version 24.8)",
                b"HTTP/1.1 500 No\r\nX-ClickHouse-Exception-Code: 252\r\n",
            ),
            252,
            "Too many parts",
        ),
        (answered(b"Code: 241. DB::Exception: Memory limit"), 241, "Memory limit"),
        (answered(b"", OK + b"X-ClickHouse-Exception-Code: 159\r\n"), 159, "code 159"),
        (answered(b"no such page", b"HTTP/1.1 404 No\r\n"), 0, "status 404"),
    ],
)
def test_an_error_is_seen_by_its_code_whatever_the_status(answer: bytes, code: int, words: str):
    async def running():
        async with scripted(answer) as (to, _), HOUSES.open(to):
            pass

    with pytest.raises(DatabaseRefused, match=words) as caught:
        asyncio.run(running())
    assert caught.value.code == code


def test_a_gateway_that_answers_for_the_server_is_no_word_of_the_server():
    async def running():
        bad = answered(b"<html>bad gateway", b"HTTP/1.1 502 No\r\n")
        async with scripted(bad) as (to, _), HOUSES.open(to):
            pass

    with pytest.raises(Unavailable, match="status 502") as caught:
        asyncio.run(running())
    assert not isinstance(caught.value, DatabaseRefused)


def test_what_is_no_clickhouse_is_told_so():
    async def running():
        async with scripted(answered(b"hello")) as (to, _):
            return await HOUSES.check(to)

    (rung,) = asyncio.run(running())
    assert (rung.passed, rung.told.endswith("but is no ClickHouse")) == (False, True)
