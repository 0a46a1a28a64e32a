"""ClickHouse over HTTP: the table of the export, made where it lacks, and filled."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Literal
from urllib.parse import urlencode

from agentd.core.errors import AgentdError, DatabaseError, Unavailable
from agentd.core.redaction import escape_unprintable
from agentd.gateway.export import sql
from agentd.gateway.export.ports import AnalyticsDatabase, ExportCheckStep
from agentd.gateway.settings.model import ExportSettings
from agentd.llm.upstream.client import HttpUpstream
from agentd.llm.upstream.protocol import Timeouts, Upstream, UpstreamRequest

QUERY_TIMEOUTS = Timeouts(connect=5, head=10, idle=10, total=10)
"""The timeouts of queries."""
WRITE_TIMEOUTS = Timeouts(connect=10, head=60, idle=60, total=300)
"""The timeouts of statements that take the server some work."""
MAX_RESPONSE_BYTES = 4 * 2**20
"""Bytes of an answer: a line for each day."""
MAX_ERROR_CHARS = 500
"""Letters of the server's own words of an error."""

_FAILED = 400
_CODE = re.compile(r"Code: ([0-9]{1,9})\b")
_WORDS = re.compile(r"DB::Exception: (.*)", re.DOTALL)
_HINTS = {
    81: "Make it with CREATE DATABASE, or name another by export.database.",
    192: "Look at export.user and export.password.",
    193: "Look at export.user and export.password.",
    497: "Grant the user CREATE TABLE, ALTER, INSERT and SELECT on the database.",
    516: "Look at export.user and export.password.",
}


class ClickHouse:
    """A server, accessed with one user's password; ``to`` names the table."""

    def __init__(self, upstream: Upstream, to: ExportSettings, password: str) -> None:
        self._upstream = upstream
        self._to = to
        self._address = (to.url or "").rstrip("/")
        self._sign_in = {"x-clickhouse-user": to.user} if to.user else {}
        if password:
            self._sign_in["x-clickhouse-key"] = password
        self._knows: sql.Capabilities = ()

    async def ping(self) -> None:
        """Raise ``SupplierUnreachable`` or ``DatabaseError`` unless a ClickHouse answers."""
        request = UpstreamRequest("GET", f"{self._address}/ping", timeouts=QUERY_TIMEOUTS)
        async with self._upstream.send(request) as answer:
            body = await answer.read(MAX_RESPONSE_BYTES)
        if answer.status != 200 or body.strip() != b"Ok.":
            raise DatabaseError(f"{self._address} answers, but is no ClickHouse", 0)

    async def get_version(self) -> str:
        """Return the server's version: who may ask for it may sign in."""
        return (await self._ask(sql.VERSION_QUERY)).strip()

    async def inspect_table(self) -> str:
        """Describe the change that the table needs; empty if it needs none.

        Raises if it is foreign.
        """
        columns = await self._read_columns()
        if columns is None:
            return "it will be made"
        lacks = ", ".join(column.name for column in sql.find_missing(columns))
        return f"it lacks {lacks}, which will be added" if lacks else ""

    async def prepare(self) -> None:
        """Make the table, or add what it lacks."""
        self._knows = frozenset((await self._ask(sql.CAPABILITIES_QUERY)).split())
        columns = await self._read_columns()
        if columns is None:
            await self._ask(sql.create_table(self._to.table, self._knows), timeouts=WRITE_TIMEOUTS)
        elif lacking := sql.find_missing(columns):
            await self._ask(
                sql.add_columns(self._to.table, lacking, self._knows), timeouts=WRITE_TIMEOUTS
            )

    async def insert(self, packed: bytes, token: str) -> None:
        """Put rows in, given as gzip of JSON lines."""
        statement, settings = (
            sql.insert_rows(self._to.table),
            sql.build_insert_settings(token, self._knows),
        )
        gzip = {"content-encoding": "gzip"}
        await self._ask(statement, settings, packed, gzip, timeouts=WRITE_TIMEOUTS)

    async def drop_day(self, source: str, day: str) -> None:
        """Take a day of a ledger out."""
        await self._ask(sql.drop_day(self._to.table, source, day), timeouts=WRITE_TIMEOUTS)

    async def count_rows(self, source: str, first: str, last: str) -> dict[str, int]:
        """Return the rows of each day of a ledger that has any."""
        text = await self._ask(
            sql.count_rows(self._to.table, source, first, last), timeouts=WRITE_TIMEOUTS
        )
        return {
            day: int(rows)
            for day, _, rows in (one.partition("\t") for one in text.split("\n"))
            if day
        }

    async def _read_columns(self) -> set[str] | None:
        """Return the names of the table's columns; None if there is no table."""
        where = self._to.database, self._to.table
        table = (await self._ask(sql.find_table(*where))).rstrip("\n")
        if not table:
            return None
        engine, _, parted = table.partition("\t")
        if why := sql.explain_foreign(engine, parted):
            name = f"{self._to.database}.{self._to.table}"
            raise DatabaseError(
                f"The table {name} is not agentd's: {why}", 0, "Name another by export.table."
            )
        return set((await self._ask(sql.list_columns(*where))).split())

    async def _ask(
        self,
        statement: str,
        settings: Mapping[str, str] | None = None,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts = QUERY_TIMEOUTS,
    ) -> str:
        """Return the answer to a statement.

        An error may come after a good status, so it is waited for.
        """
        parameters = {"database": self._to.database, "query": statement, "wait_end_of_query": "1"}
        request = UpstreamRequest(
            "POST",
            f"{self._address}/?{urlencode({**parameters, **(settings or {})})}",
            {**self._sign_in, **(headers or {})},
            body,
            timeouts,
        )
        async with self._upstream.send(request) as answer:
            text = (await answer.read(MAX_RESPONSE_BYTES)).decode("utf-8", "replace")
            _refuse(answer.status, answer.headers.get("x-clickhouse-exception-code", ""), text)
            return text


class ClickHouseConnector:
    """Opens databases; satisfies ``gateway.export.ports.DatabaseConnector``.

    ``password_of`` returns the password of settings; it raises ``ConfigError`` or ``Unavailable``.
    """

    def __init__(self, password_of: Callable[[ExportSettings], Awaitable[str]]) -> None:
        self._password_of = password_of

    def open(self, to: ExportSettings) -> AbstractAsyncContextManager[AnalyticsDatabase]:
        """Return the table of these settings, made where it lacks."""
        return self._open_database(to)

    async def check(self, to: ExportSettings) -> list[ExportCheckStep]:
        """Yield each step until one fails. Nothing is created or changed."""
        if to.url is None:
            return [ExportCheckStep("settings", False, "export.url is not set")]
        steps: list[ExportCheckStep] = []
        name: Literal["settings", "reach", "sign_in", "table"] = "settings"
        try:
            async with self._open_server(to) as server:
                name = "reach"
                await server.ping()
                steps.append(ExportCheckStep(name, True, f"a ClickHouse answers at {to.url}"))
                name = "sign_in"
                version = await server.get_version()
                steps.append(
                    ExportCheckStep(
                        name, True, f"signed in to version {escape_unprintable(version)[:40]}"
                    )
                )
                name = "table"
                to_do = await server.inspect_table()
                steps.append(
                    ExportCheckStep(name, True, f"{to.database}.{to.table}: {to_do or 'in order'}")
                )
        except AgentdError as error:
            steps.append(
                ExportCheckStep(name, False, " ".join(filter(None, (error.message, error.details))))
            )
        return steps

    @asynccontextmanager
    async def _open_database(self, to: ExportSettings) -> AsyncIterator[AnalyticsDatabase]:
        async with self._open_server(to) as server:
            await server.prepare()
            yield server

    @asynccontextmanager
    async def _open_server(self, to: ExportSettings) -> AsyncIterator[ClickHouse]:
        password = await self._password_of(to)
        upstream = HttpUpstream()
        try:
            yield ClickHouse(upstream, to, password)
        finally:
            await upstream.close()


def _refuse(status: int, header: str, text: str) -> None:
    """Raise ``DatabaseError`` if a response is an error, whatever its status."""
    found = _CODE.match(text) if status < _FAILED else _CODE.search(text)
    if status < _FAILED and not found and not header:
        return
    if found or header.isdecimal():
        code = int(found[1] if found else header)
        words = _WORDS.search(text)
        message = escape_unprintable((words[1] if words else text).strip())[:MAX_ERROR_CHARS]
        raise DatabaseError(
            f"The analytics database returned error {code}: {message}", code, _HINTS.get(code, "")
        )
    if status >= 500:
        raise Unavailable(f"The analytics database responded with status {status}")
    raise DatabaseError(f"The analytics database responded with status {status}", 0)
