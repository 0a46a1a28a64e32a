"""ClickHouse over HTTP: the table of the export, made where it lacks, and filled."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Literal
from urllib.parse import urlencode

from agentd.errors import AgentdError, DatabaseRefused, Unavailable
from agentd.outside.upstream import HttpUpstream
from agentd.proxy.export import sql
from agentd.proxy.export.needs import Database, Rung
from agentd.proxy.settings import Export
from agentd.proxy.upstream import Request, Timeouts, Upstream
from agentd.redaction import visible

QUICK = Timeouts(connect=5, head=10, idle=10, total=10)
"""For what is only asked."""
PATIENT = Timeouts(connect=10, head=60, idle=60, total=300)
"""For what takes the server some work."""
ANSWER_LIMIT = 4 * 2**20
"""Bytes of an answer: a line for each day."""
TOLD = 500
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
    """One server, spoken to with one user's password; ``to`` says which table it is about."""

    def __init__(self, upstream: Upstream, to: Export, password: str) -> None:
        self._upstream = upstream
        self._to = to
        self._address = (to.url or "").rstrip("/")
        self._sign_in = {"x-clickhouse-user": to.user} if to.user else {}
        if password:
            self._sign_in["x-clickhouse-key"] = password
        self._knows: sql.Knows = ()

    async def ping(self) -> None:
        """Raise ``SupplierUnreachable`` or ``DatabaseRefused`` unless a ClickHouse answers."""
        request = Request("GET", f"{self._address}/ping", timeouts=QUICK)
        async with self._upstream.send(request) as answer:
            body = await answer.read(ANSWER_LIMIT)
        if answer.status != 200 or body.strip() != b"Ok.":
            raise DatabaseRefused(f"{self._address} answers, but is no ClickHouse", 0)

    async def version(self) -> str:
        """The server's version: who may ask for it may sign in."""
        return (await self._ask(sql.VERSION)).strip()

    async def found(self) -> str:
        """What is to be done about the table, in words; empty: nothing. Raises if it is foreign."""
        columns = await self._columns()
        if columns is None:
            return "it will be made"
        lacks = ", ".join(column.name for column in sql.missing(columns))
        return f"it lacks {lacks}, which will be added" if lacks else ""

    async def prepare(self) -> None:
        """Make the table, or add what it lacks."""
        self._knows = frozenset((await self._ask(sql.KNOWLEDGE)).split())
        columns = await self._columns()
        if columns is None:
            await self._ask(sql.creating(self._to.table, self._knows), timeouts=PATIENT)
        elif lacking := sql.missing(columns):
            await self._ask(sql.adding(self._to.table, lacking, self._knows), timeouts=PATIENT)

    async def insert(self, packed: bytes, token: str) -> None:
        """Put rows in, given as gzip of JSON lines."""
        statement, settings = (
            sql.inserting(self._to.table),
            sql.insert_settings(token, self._knows),
        )
        gzip = {"content-encoding": "gzip"}
        await self._ask(statement, settings, packed, gzip, timeouts=PATIENT)

    async def drop(self, source: str, day: str) -> None:
        """Take a day of a ledger out."""
        await self._ask(sql.dropping(self._to.table, source, day), timeouts=PATIENT)

    async def count(self, source: str, first: str, last: str) -> dict[str, int]:
        """The rows of each day of a ledger that has any."""
        told = await self._ask(sql.counting(self._to.table, source, first, last), timeouts=PATIENT)
        return {
            day: int(rows)
            for day, _, rows in (one.partition("\t") for one in told.split("\n"))
            if day
        }

    async def _columns(self) -> set[str] | None:
        """The names of the table's columns; None where there is none."""
        where = self._to.database, self._to.table
        table = (await self._ask(sql.finding(*where))).rstrip("\n")
        if not table:
            return None
        engine, _, parted = table.partition("\t")
        if why := sql.foreign(engine, parted):
            name = f"{self._to.database}.{self._to.table}"
            raise DatabaseRefused(
                f"The table {name} is not agentd's: {why}", 0, "Name another by export.table."
            )
        return set((await self._ask(sql.describing(*where))).split())

    async def _ask(
        self,
        statement: str,
        settings: Mapping[str, str] | None = None,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts = QUICK,
    ) -> str:
        """The answer to a statement. An error may come after a good status, so it is waited for."""
        told = {"database": self._to.database, "query": statement, "wait_end_of_query": "1"}
        request = Request(
            "POST",
            f"{self._address}/?{urlencode({**told, **(settings or {})})}",
            {**self._sign_in, **(headers or {})},
            body,
            timeouts,
        )
        async with self._upstream.send(request) as answer:
            text = (await answer.read(ANSWER_LIMIT)).decode("utf-8", "replace")
            _refuse(answer.status, answer.headers.get("x-clickhouse-exception-code", ""), text)
            return text


class ClickHouses:
    """Comes by databases; satisfies ``proxy.export.needs.Connect``.

    ``password_of`` tells the password of settings; it raises ``Misconfigured`` or ``Unavailable``.
    """

    def __init__(self, password_of: Callable[[Export], Awaitable[str]]) -> None:
        self._password_of = password_of

    def open(self, to: Export) -> AbstractAsyncContextManager[Database]:
        """The table of these settings, made where it lacks."""
        return self._opened(to)

    async def check(self, to: Export) -> list[Rung]:
        """Each step until one fails. Nothing is made or changed."""
        if to.url is None:
            return [Rung("settings", False, "export.url is not set")]
        rungs: list[Rung] = []
        name: Literal["settings", "reach", "sign_in", "table"] = "settings"
        try:
            async with self._server(to) as server:
                name = "reach"
                await server.ping()
                rungs.append(Rung(name, True, f"a ClickHouse answers at {to.url}"))
                name = "sign_in"
                version = await server.version()
                rungs.append(Rung(name, True, f"signed in to version {visible(version)[:40]}"))
                name = "table"
                to_do = await server.found()
                rungs.append(Rung(name, True, f"{to.database}.{to.table}: {to_do or 'in order'}"))
        except AgentdError as error:
            rungs.append(Rung(name, False, " ".join(filter(None, (error.message, error.details)))))
        return rungs

    @asynccontextmanager
    async def _opened(self, to: Export) -> AsyncIterator[Database]:
        async with self._server(to) as server:
            await server.prepare()
            yield server

    @asynccontextmanager
    async def _server(self, to: Export) -> AsyncIterator[ClickHouse]:
        password = await self._password_of(to)
        upstream = HttpUpstream()
        try:
            yield ClickHouse(upstream, to, password)
        finally:
            await upstream.close()


def _refuse(status: int, header: str, text: str) -> None:
    """Raise ``DatabaseRefused`` for an answer that is an error, whatever its status."""
    found = _CODE.match(text) if status < _FAILED else _CODE.search(text)
    if status < _FAILED and not found and not header:
        return
    if found or header.isdecimal():
        code = int(found[1] if found else header)
        words = _WORDS.search(text)
        told = visible((words[1] if words else text).strip())[:TOLD]
        raise DatabaseRefused(
            f"The analytics database refuses, code {code}: {told}", code, _HINTS.get(code, "")
        )
    if status >= 500:
        raise Unavailable(f"The analytics database answers with status {status}")
    raise DatabaseRefused(f"The analytics database answers with status {status}", 0)
