"""The rows below ``/api/agent/export``."""

from agentd.errors import BadRequest, Conflict, Unavailable
from agentd.web.manage import export as shapes
from agentd.web.manage.export import FILTERS, ExportDesk
from agentd.web.manage.resource import DRY_RUN
from agentd.web.table import Route
from agentd.web.tables.manage_rows import row

_PATH = "/api/agent/export"


def rows(desk: ExportDesk) -> tuple[Route, ...]:
    """State, backfill, check."""
    return (
        row(
            "GET",
            _PATH,
            endpoint=desk.export_state,
            summary="How far the ledger was sent to the analytics database, day by day.",
            gives=shapes.ExportState,
            errors=(BadRequest, Unavailable),
            parameters=FILTERS,
            operation="get_export_state",
        ),
        row(
            "POST",
            f"{_PATH}/backfill",
            endpoint=desk.start_backfill,
            summary="Send exactly the days that are missed or changed, in the background.",
            takes=shapes.Backfill,
            example={"from": "2026-01-01", "to": "2026-01-31"},
            gives=shapes.BackfillPlan,
            errors=(BadRequest, Conflict, Unavailable),
            parameters=(DRY_RUN,),
        ),
        row(
            "POST",
            f"{_PATH}/check",
            endpoint=desk.check_export,
            summary="Whether the database is reached, lets us in and has the table; sends nothing.",
            gives=shapes.ExportCheck,
        ),
    )
