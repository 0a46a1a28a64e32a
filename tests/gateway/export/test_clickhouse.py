"""The analytics database: a real one, and the very words for newer ones."""

import asyncio
import gzip
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec import structs

from agentd.core.errors import DatabaseError, SupplierUnreachable, Unavailable
from agentd.gateway.export import sql
from agentd.gateway.export.clickhouse import ClickHouseConnector
from agentd.gateway.export.rows import COLUMNS, encode_row
from agentd.gateway.settings.model import ExportSettings
from tests.gateway.ledger.entries import build_record
from tests.support.clickhouse import PASSWORD, Server, running_clickhouse
from tests.support.loopback import OK, supplier
from tests.support.ports import find_free_port

DAY, SOURCE = "2026-01-01", "a1b2"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running_clickhouse(tmp_path_factory.mktemp("clickhouse")) as found:
        yield found


@pytest.fixture(autouse=True)
def _empty(request):
    """Drop all tables."""
    yield
    if "server" in request.fixturenames:
        request.getfixturevalue("server").ask("DROP TABLE IF EXISTS agentd_requests")


async def get_password(to: ExportSettings) -> str:
    return to.password


HOUSES = ClickHouseConnector(get_password)


def run_steps(to: ExportSettings, *steps):
    """Run each step over one database; return the results."""

    async def run_all():
        async with HOUSES.open(to) as database:
            return [await step(database) for step in steps]

    return asyncio.run(run_all())


def pack_records(*entries, version=1) -> bytes:
    return gzip.compress(b"".join(encode_row(one, DAY, SOURCE, version) for one in entries))


def insert_records(*entries):
    return lambda database: database.insert(pack_records(*entries), "t")


def count_rows(database):
    return database.count_rows(SOURCE, "2026-01-01", "2026-01-31")


def test_the_table_is_made_and_filled_counted_and_a_day_taken_out(server: Server):
    result = run_steps(
        server.settings(),
        count_rows,
        insert_records(*map(build_record, range(3))),
        count_rows,
        lambda database: database.drop_day("other", DAY),
        count_rows,
        lambda database: database.drop_day(SOURCE, DAY),
        lambda database: database.drop_day(SOURCE, DAY),
        count_rows,
    )
    assert [result[0], result[2], result[4], result[7]] == [{}, {DAY: 3}, {DAY: 3}, {}]


def test_each_column_is_there_and_holds_what_was_sent(server: Server):
    run_steps(server.settings(), insert_records(build_record(7, key_name='=x"\n\u2028é')))
    (row,) = server.rows()
    assert list(row) == [column.name for column in COLUMNS]
    assert (row["request_id"], row["at"]) == ("r-7", "2026-01-01 00:00:00.000")
    assert row["key_name"] == '=x"\n\u2028é'
    assert row["cost"] == 0.25


def test_an_older_table_gets_the_columns_that_it_lacks_and_keeps_its_rows(server: Server):
    run_steps(server.settings(), insert_records(build_record(1)))
    server.ask("ALTER TABLE agentd_requests DROP COLUMN sent, DROP COLUMN hidden_rules")
    assert "it lacks sent, hidden_rules" in asyncio.run(HOUSES.check(server.settings()))[-1].detail
    run_steps(server.settings(), insert_records(build_record(2, hidden={"jwt": 2})))
    assert [row["hidden_rules"] for row in server.rows()] == [[], ["jwt"]]
    assert asyncio.run(HOUSES.check(server.settings()))[-1].detail.endswith("in order")


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("ENGINE = MergeTree PARTITION BY (source, day) ORDER BY day", "its engine is MergeTree"),
        ("ENGINE = ReplacingMergeTree PARTITION BY day ORDER BY day", "it is partitioned by day"),
    ],
)
def test_a_table_that_is_not_ours_is_left_alone(server: Server, table: str, why: str):
    server.ask(f"CREATE TABLE agentd_requests (day Date, source String) {table}")
    with pytest.raises(DatabaseError, match=why):
        run_steps(server.settings())
    *_, step = asyncio.run(HOUSES.check(server.settings()))
    assert (step.name, step.passed) == ("table", False)
    assert "export.table" in step.detail


@pytest.mark.parametrize(
    ("more", "code", "hint"),
    [
        ({"password": "wrong-password"}, 193, "export.password"),
        ({"user": "nobody"}, 192, "export.user"),
        ({"database": "nowhere"}, 81, "CREATE DATABASE"),
    ],
)
def test_a_client_that_may_not_in_is_shown_why_and_what_to_do(
    server: Server, more, code: int, hint: str
):
    with pytest.raises(DatabaseError) as caught:
        run_steps(structs.replace(server.settings(), **more))
    assert caught.value.code == code
    assert hint in caught.value.details
    assert "wrong-password" not in str(caught.value)


def test_a_check_climbs_step_by_step_and_makes_nothing(server: Server):
    steps = asyncio.run(HOUSES.check(server.settings()))
    assert [(step.name, step.passed) for step in steps] == [
        ("reach", True),
        ("sign_in", True),
        ("table", True),
    ]
    assert steps[-1].detail.endswith("it will be made")
    assert server.ask("EXISTS TABLE agentd_requests") == "0\n"
    steps = asyncio.run(HOUSES.check(structs.replace(server.settings(), user="x")))
    assert [(step.name, step.passed) for step in steps] == [("reach", True), ("sign_in", False)]


def test_a_database_that_is_gone_is_reported_by_its_host():
    url = f"http://127.0.0.1:{find_free_port()}"
    with pytest.raises(SupplierUnreachable, match="cannot be connected to"):
        run_steps(ExportSettings(url=url))
    (step,) = asyncio.run(HOUSES.check(ExportSettings(url=url)))
    assert (step.name, step.passed) == ("reach", False)
    (step,) = asyncio.run(HOUSES.check(ExportSettings()))
    assert (step.name, step.passed) == ("settings", False)


NEW = b"insert_deduplication_token\nasync_insert\ninput_format_parallel_parsing\n"
NEW += b"input_format_skip_unknown_fields\ninsert_deduplicate\nDateTime64\n"
NEW += b"non_replicated_deduplication_window\n"


def build_answer(body: bytes, head=OK) -> bytes:
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


@asynccontextmanager
async def scripted_server(*answers: bytes):
    """A server that gives these answers; ``heard`` are the requests."""
    heard: list[bytes] = []
    left = list(answers)

    async def behave(one):
        while left:
            heard.append(await one.read_request())
            one.say(left.pop(0))

    async with supplier(behave) as there:
        yield ExportSettings(url=f"{there.url}/way", user="u", password=PASSWORD), heard


def parse_request(request: bytes) -> tuple[str, dict[str, str], dict[str, str], bytes]:
    """Parse a request: first line, parameters, headers and body."""
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    method, target, _ = first.split(" ")
    parts = urlsplit(target)
    query = {name: value for name, (value,) in parse_qs(parts.query).items()}
    return f"{method} {parts.path}", query, dict(one.split(": ") for one in lines), body


def test_a_newer_server_receives_all_that_makes_a_row_be_there_once():
    async def running():
        ok = build_answer(b"")
        async with scripted_server(
            build_answer(NEW), ok, ok, ok, build_answer(b"2026-01-01\t3\n")
        ) as (to, heard):
            async with HOUSES.open(to) as database:
                await database.insert(b"rows", "the-token")
                assert await database.count_rows(SOURCE, DAY, DAY) == {DAY: 3}
            return heard

    asked = list(map(parse_request, asyncio.run(running())))
    assert {first for first, *_ in asked} == {"POST /way/"}
    knows, found, made, inserted, counted = (query for _, query, _, _ in asked)
    always = {"database": "default", "wait_end_of_query": "1"}
    assert knows == {**always, "query": sql.CAPABILITIES_QUERY}
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
            build_answer(
                b"Code: 252. DB::Exception: Too many parts (300). (TOO_MANY_PARTS) (version 24.8)",
                b"HTTP/1.1 500 No\r\nX-ClickHouse-Exception-Code: 252\r\n",
            ),
            252,
            "Too many parts",
        ),
        (build_answer(b"Code: 241. DB::Exception: Memory limit"), 241, "Memory limit"),
        (build_answer(b"", OK + b"X-ClickHouse-Exception-Code: 159\r\n"), 159, "error 159"),
        (build_answer(b"no such page", b"HTTP/1.1 404 No\r\n"), 0, "status 404"),
    ],
)
def test_an_error_is_seen_by_its_code_whatever_the_status(answer: bytes, code: int, words: str):
    async def running():
        async with scripted_server(answer) as (to, _), HOUSES.open(to):
            pass

    with pytest.raises(DatabaseError, match=words) as caught:
        asyncio.run(running())
    assert caught.value.code == code


def test_a_gateway_that_answers_for_the_server_is_no_word_of_the_server():
    async def running():
        bad = build_answer(b"<html>bad gateway", b"HTTP/1.1 502 No\r\n")
        async with scripted_server(bad) as (to, _), HOUSES.open(to):
            pass

    with pytest.raises(Unavailable, match="status 502") as caught:
        asyncio.run(running())
    assert not isinstance(caught.value, DatabaseError)


def test_what_is_no_clickhouse_is_informed():
    async def running():
        async with scripted_server(build_answer(b"hello")) as (to, _):
            return await HOUSES.check(to)

    (step,) = asyncio.run(running())
    assert (step.passed, step.detail.endswith("but is no ClickHouse")) == (False, True)
