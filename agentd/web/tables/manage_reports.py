"""The rows of the management that tell what was done: requests, notes, reports, the summary."""

from typing import NamedTuple

from msgspec import structs

from agentd.errors import BadRequest, NotFound, Unavailable
from agentd.web.manage import codes, licence, limits, reports, requests, service_log, summary
from agentd.web.manage.codes import CodeDesk
from agentd.web.manage.licence import LicenceDesk
from agentd.web.manage.limits import LimitDesk
from agentd.web.manage.listing import CURSOR, LIMIT, PAGING
from agentd.web.manage.reports import ReportDesk, ReportList
from agentd.web.manage.requests import RequestDesk
from agentd.web.manage.resource import DRY_RUN
from agentd.web.manage.service_log import NoteDesk
from agentd.web.manage.spans import FROM, FROM_DAY, TO, TO_DAY
from agentd.web.manage.summary import SummaryDesk
from agentd.web.table import Endpoint, Parameter, Route
from agentd.web.tables.manage_rows import ID, row

_ROOT = "/api/agent"
_REPORTS = f"{_ROOT}/reports"
_PAGE = (reports.LIMIT, reports.CURSOR, reports.FORMAT)


class ReportDesks(NamedTuple):
    """Who answers."""

    requests: RequestDesk
    notes: NoteDesk
    reports: ReportDesk
    limits: LimitDesk
    summary: SummaryDesk
    licence: LicenceDesk
    codes: CodeDesk


def rows(desks: ReportDesks) -> tuple[Route, ...]:
    """Of all of them."""
    told = _reports(desks.reports, desks.limits)
    return (
        *_requests(desks.requests, desks.notes),
        _list(told),
        *told,
        *_standing(desks),
    )


def _requests(desk: RequestDesk, notes: NoteDesk) -> tuple[Route, ...]:
    return (
        row(
            "GET",
            f"{_ROOT}/requests",
            endpoint=desk.list_requests,
            summary="The requests that the gateway answered, the newest first.",
            gives=requests.RequestPage,
            errors=(BadRequest, Unavailable),
            parameters=(LIMIT, CURSOR, FROM, TO, *requests.FILTERS),
        ),
        row(
            "GET",
            f"{_ROOT}/requests/{{id}}",
            endpoint=desk.one_request,
            summary="One request, with its bodies where its key has them kept, secrets hidden.",
            gives=requests.RequestDetailView,
            errors=(BadRequest, NotFound, Unavailable),
            parameters=(ID, requests.DAY),
            operation="get_request",
        ),
        row(
            "POST",
            f"{_ROOT}/requests/reprice",
            endpoint=desk.reprice_requests,
            summary="Price the requests of some days by the prices of now; the first cost is kept.",
            takes=requests.Reprice,
            example={"from": "2026-01-01", "to": "2026-01-31"},
            gives=requests.DifferenceView,
            errors=(BadRequest, Unavailable),
            parameters=(DRY_RUN,),
        ),
        row(
            "GET",
            f"{_ROOT}/service-log",
            endpoint=notes.list_notes,
            summary="What befell the gateway as a service, the newest first.",
            gives=service_log.NotePageView,
            errors=(BadRequest, Unavailable),
            parameters=(LIMIT, CURSOR, *service_log.FILTERS),
        ),
    )


def _reports(desk: ReportDesk, burning: LimitDesk) -> tuple[Route, ...]:
    spend, days = reports.SpendReport, (FROM_DAY, TO_DAY)
    narrowed = (*days, *reports.ONLY, *_PAGE)
    by, timed = (reports.BY, *narrowed), (reports.TIMED_BY, *narrowed)
    leaks = (*days, reports.ONLY[0], reports.RULE, *_PAGE)
    limit_page = (*PAGING, reports.FORMAT)
    told: tuple[tuple[str, Endpoint, str, type, tuple[Parameter, ...]], ...] = (
        (
            "totals",
            desk.report_totals,
            "What the days add up to.",
            spend,
            narrowed,
        ),
        ("by-day", desk.report_by_day, "The same day by day (UTC).", spend, narrowed),
        ("by-hour", desk.report_by_hour, "The same hour by hour (UTC).", spend, narrowed),
        ("by-model", desk.report_by_model, "By model, the dearest first.", spend, narrowed),
        ("by-channel", desk.report_by_channel, "By channel, the dearest first.", spend, narrowed),
        ("by-key", desk.report_by_key, "By access key, the dearest first.", spend, narrowed),
        (
            "top-spenders",
            desk.report_top_spenders,
            "Access keys, and the part of all that each spent.",
            reports.SpenderReport,
            narrowed,
        ),
        (
            "errors",
            desk.report_errors,
            "Errors by kind, the most frequent first.",
            reports.ErrorReport,
            narrowed,
        ),
        (
            "latency",
            desk.report_latency,
            "How long answers took, and their first piece: p50, p95 and p99 in milliseconds.",
            reports.TimeReport,
            timed,
        ),
        (
            "cache-share",
            desk.report_cache_share,
            "Which part of what models read was known to their suppliers.",
            reports.CacheReport,
            by,
        ),
        (
            "limits",
            burning.report_limits,
            "Each key's limits in USD, and how many days they last at this rate.",
            limits.BurnReport,
            limit_page,
        ),
        (
            "leaks",
            desk.report_leaks,
            "Secrets that were found in requests, by day, access key and rule; never the secrets.",
            reports.LeakReport,
            leaks,
        ),
    )
    return tuple(_report(*one) for one in told)


def _report(
    name: str, endpoint: Endpoint, summary: str, page: type, parameters: tuple[Parameter, ...]
) -> Route:
    return row(
        "GET",
        f"{_REPORTS}/{name}",
        endpoint=endpoint,
        summary=summary,
        gives=page,
        also=("text/csv",),
        errors=(BadRequest,) if name == "limits" else (BadRequest, Unavailable),
        parameters=parameters,
    )


def _list(told: tuple[Route, ...]) -> Route:
    names = [(one.path.rpartition("/")[2], one.summary) for one in told]
    return row(
        "GET",
        _REPORTS,
        endpoint=ReportList(names).list_reports,
        summary="The reports that there are, and what each tells.",
        gives=reports.ReportsView,
    )


def _standing(desks: ReportDesks) -> tuple[Route, ...]:
    leaks = _reports(desks.reports, desks.limits)[-1]
    return (
        structs.replace(leaks, path=f"{_ROOT}/leaks", endpoint=desks.reports.list_leaks),
        row(
            "GET",
            f"{_ROOT}/summary",
            endpoint=desks.summary.summary,
            summary="The gateway at a glance: spend, errors, channels, licence, trouble.",
            gives=summary.SummaryView,
            errors=(Unavailable,),
            operation="get_summary",
        ),
        row(
            "GET",
            f"{_ROOT}/licence",
            endpoint=desks.licence.licence,
            summary="Whether model requests are carried, and if not why, and what to do.",
            gives=licence.LicenceView,
            operation="get_licence",
        ),
        row(
            "PUT",
            f"{_ROOT}/licence",
            endpoint=desks.licence.install_licence,
            summary="Install a licence; one that does not hold here changes nothing.",
            takes=licence.InstallLicence,
            example={"token": "agentd-licence.v1.eyJ..."},
            gives=licence.LicenceView,
            errors=(BadRequest, Unavailable),
            parameters=(DRY_RUN,),
        ),
        row(
            "POST",
            f"{_ROOT}/session",
            endpoint=desks.codes.issue_code,
            summary="A one-time code by which a person signs in as administrator for 90 days.",
            gives=codes.CodeView,
            status=201,
            errors=(Unavailable,),
            section="3",
        ),
    )
