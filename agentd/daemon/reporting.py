"""What the management tells of what was done: its desks, over the gateway's own parts.

A part of the composition root (``daemon``).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import tzinfo
from functools import partial

from agentd.clock import Clock
from agentd.daemon.door import Doorkeepers
from agentd.daemon.gateway import ModelGateway
from agentd.disk.access_key_book import AccessKeyBook
from agentd.disk.bodies import Body
from agentd.disk.inspect import GatewayInspection
from agentd.disk.layout import Layout
from agentd.disk.service_log import page as notes_page
from agentd.errors import BadRequest, Mistake, nearest
from agentd.proxy.access_key import folded, is_key_id
from agentd.proxy.export.service import Exporter
from agentd.proxy.keyring import AccessKeys
from agentd.proxy.management.service import Journal
from agentd.proxy.notes import NoteFilter, NotePage
from agentd.proxy.routing import Standing
from agentd.web.manage.codes import CodeDesk
from agentd.web.manage.licence import LicenceDesk
from agentd.web.manage.limits import LimitDesk
from agentd.web.manage.reports import ReportDesk
from agentd.web.manage.requests import RequestDesk
from agentd.web.manage.service_log import NoteDesk
from agentd.web.manage.summary import SummaryDesk
from agentd.web.table import Route
from agentd.web.tables.manage_reports import ReportDesks, rows


def reporting(
    layout: Layout,
    clock: Clock,
    gateway: ModelGateway,
    doorkeepers: Doorkeepers,
    journal: Journal,
    exporter: Exporter,
) -> tuple[Route, ...]:
    """The rows that these desks add to the routes table."""
    ledger, licence, keys = gateway.ledger, gateway.licence, doorkeepers.access
    key_id = partial(_key_id, keys)

    def zone() -> tzinfo:
        return ledger.zone

    return rows(
        ReportDesks(
            requests=RequestDesk(
                ledger, _body(gateway), key_id, gateway.models, journal, gateway.recount, zone
            ),
            notes=NoteDesk(_notes(layout), lambda: gateway.log.dropped),
            reports=ReportDesk(ledger, key_id, clock, zone),
            limits=LimitDesk(keys, gateway.meters, clock),
            summary=SummaryDesk(
                _AtAGlance(gateway, keys, exporter, layout), ledger, licence, clock
            ),
            licence=LicenceDesk(licence, journal),
            codes=CodeDesk(doorkeepers.people.issue_code, journal),
        )
    )


class _AtAGlance:
    """Satisfies ``web.manage.summary.Gateway``."""

    def __init__(
        self, gateway: ModelGateway, keys: AccessKeyBook, exporter: Exporter, layout: Layout
    ) -> None:
        self._exporter = exporter
        self._gateway = gateway
        self._book = keys
        self._inspection = GatewayInspection(layout)

    @property
    def models(self) -> int:
        """How many can be called."""
        return len(self._gateway.models())

    @property
    def keys(self) -> AccessKeys:
        """Those that are valid."""
        return self._book.keys

    def standing(self) -> Mapping[str, Standing]:
        """How each channel fares."""
        return self._gateway.router.standing(self._gateway.channels.current)

    def dropped(self) -> tuple[int, int]:
        """Notes and bodies."""
        return self._gateway.log.dropped, self._gateway.bodies.dropped

    @property
    def export_trouble(self) -> str:
        """Why the ledger cannot be exported now."""
        return self._exporter.trouble

    async def mistakes(self) -> Sequence[Mistake]:
        """All that ``agentd proxy check`` tells of the files."""
        return await asyncio.to_thread(self._inspection.mistakes)


def _key_id(keys: AccessKeyBook, told: str) -> str:
    """By id, else by name; else, where it has the form of an id, it is that of a key that is gone.

    Raises ``BadRequest`` with the nearest name for what can be neither.
    """
    if keys.keys.find(told):
        return told
    name = folded(told)
    found = next((key.id for key in keys.keys if folded(key.name) == name), "")
    if not found and not is_key_id(told):
        near = nearest(told, [key.name for key in keys.keys])
        raise BadRequest(f'There is no access key "{told[:100]}"{near}')
    return found or told


def _body(gateway: ModelGateway) -> Callable[[str, str], Awaitable[Body | None]]:
    return lambda id_, day: asyncio.to_thread(gateway.bodies.read, id_, day)


def _notes(layout: Layout) -> Callable[[NoteFilter, int, str], Awaitable[NotePage]]:
    return lambda wanted, limit, cursor: asyncio.to_thread(
        notes_page, layout, wanted, limit, cursor
    )
