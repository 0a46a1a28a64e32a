"""Cron expressions in time zones, as Debian's cron reads them (``cronsim``).

Where clocks are put forward, what would fall into the gap is due right after it; where they are put
back, what runs at certain hours is due once. What runs every few minutes or hours keeps its pace.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from msgspec import Struct

from agentd.chats.queue import validate_text
from agentd.core.clock import Timestamp, format_iso, parse_iso
from agentd.core.errors import BadRequest, TooLarge
from agentd.llm.output_schema import parse_output_schema
from agentd.schedules.model import Schedule, ScheduleList

NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_EXPECTED = {
    "minute": "; expected 0 to 59",
    "hour": "; expected 0 to 23",
    "day-of-month": "; expected 1 to 31, or L for the last, and a day that the month has",
    "month": "; expected 1 to 12, or jan to dec",
    "day-of-week": "; expected 0 to 7, or sun to sat",
}
"""The values of each field; all may be ``*``, lists, ranges and steps, too."""
MOST_COUNTED = 1000
"""Missed firings that are counted; of more, only the latest is looked for."""
LOOKED_AT = timedelta(hours=12)
"""The span in which the latest is looked for, then the one before it; it has fewer than that."""
ON_TIME = timedelta(minutes=1)
"""How late a firing may be found and is still in time."""


class DueFiring(Struct, frozen=True):
    """The latest firing whose time has come."""

    at: Timestamp
    earlier: int
    """The number of firings before it that were not run; ``MOST_COUNTED`` or more count as that."""
    late: bool
    """True if it was missed, too."""


def parse_cron(expression: str) -> str:
    """Return the five fields of an expression; ``ValueError`` says what is wrong with them."""
    fields = NICKNAMES.get(expression.strip().lower(), expression)
    if len(fields.split()) != 5:
        raise ValueError(
            "expected five fields (minute, hour, day, month, weekday), or one of "
            + ", ".join(NICKNAMES)
        )
    try:
        next(CronSim(fields, datetime(2026, 1, 1)))
    except CronSimError as error:
        what = f"{error}".lower()
        raise ValueError(what + _EXPECTED.get(what.removeprefix("bad "), "")) from error
    except StopIteration:
        raise ValueError("there is no such day in the next fifty years") from None
    return fields


@lru_cache(256)
def describe_cron(expression: str) -> str:
    """Return what an expression means in words."""
    return CronSim(parse_cron(expression), datetime(2026, 1, 1)).explain()


def parse_zone(name: str) -> ZoneInfo:
    """Return a time zone; ``ValueError`` for one that is not known."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        raise ValueError(
            f"there is no time zone {name!r}; write one such as Europe/Berlin, or UTC"
        ) from None


def iter_firings(schedule: Schedule, after: Timestamp) -> Iterator[Timestamp]:
    """Yield the times of a schedule after a moment."""
    start = parse_iso(after).astimezone(parse_zone(schedule.zone))
    for moment in CronSim(parse_cron(schedule.cron), start):
        at = format_iso(moment)
        if at > after:
            yield at


@lru_cache(1024)
def find_next_firing(cron: str, zone: str, after: Timestamp) -> Timestamp:
    """Return the first time after a moment; empty: there is none in fifty years."""
    return next(iter_firings(Schedule("x", cron, "x", zone), after), "")


def find_soonest(schedules: Iterable[tuple[Schedule, Timestamp]]) -> Timestamp:
    """Return the next firing of all schedules, each after its moment; empty: there is none."""
    found = (find_next_firing(one.cron, one.zone, after) for one, after in schedules)
    return min(filter(None, found), default="")


def find_due(schedule: Schedule, considered: Timestamp, now: Timestamp) -> DueFiring | None:
    """Return the latest firing after ``considered`` whose time has come."""
    found, last = _list_until(schedule, considered, now)
    if len(found) == MOST_COUNTED:
        found += _find_latest(schedule, last, now)
    if not found:
        return None
    late = parse_iso(now) - parse_iso(found[-1]) > ON_TIME
    return DueFiring(found[-1], min(len(found) - 1, MOST_COUNTED), late)


def _list_until(
    schedule: Schedule, after: Timestamp, until: Timestamp
) -> tuple[list[Timestamp], Timestamp]:
    found: list[Timestamp] = []
    for at in iter_firings(schedule, after):
        if at > until or len(found) == MOST_COUNTED:
            break
        found.append(at)
    return found, found[-1] if found else after


def _find_latest(schedule: Schedule, after: Timestamp, until: Timestamp) -> list[Timestamp]:
    """Return the latest firing of a span of any length, looked for from its end; empty: none."""
    while until > after:
        begin = max(format_iso(parse_iso(until) - LOOKED_AT), after)
        found, _ = _list_until(schedule, begin, until)
        if found:
            return found[-1:]
        until = begin
    return []


def validate(listed: ScheduleList) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Find mistakes that the types do not show: where, and what."""
    seen: set[str] = set()
    for place, one in enumerate(listed.schedules or ()):
        for field, what in validate_schedule(one):
            yield ("schedules", place, field), what
        if one.name in seen:
            yield ("schedules", place, "name"), f'there is a schedule "{one.name}" already'
        seen.add(one.name)


def validate_schedule(schedule: Schedule) -> Iterator[tuple[str, str]]:
    """Find mistakes of one schedule: its field, and what is wrong."""
    try:
        parse_cron(schedule.cron)
    except ValueError as error:
        yield "cron", str(error)
    try:
        parse_zone(schedule.zone)
    except ValueError as error:
        yield "zone", str(error)
    try:
        validate_text(schedule.prompt, "the prompt")
    except (BadRequest, TooLarge) as error:
        yield "prompt", error.message
    if schedule.budget is not None and not (schedule.budget.is_finite() and schedule.budget > 0):
        yield "budget", f"found {schedule.budget}; expected USD, more than 0"
    if schedule.output_schema is not None:
        try:
            parse_output_schema(schedule.output_schema, "the schema")
        except BadRequest as error:
            yield "output_schema", f"{error.message} {error.details}".strip()
    if schedule.chat and (schedule.worktree or schedule.title or schedule.skill or schedule.mode):
        yield (
            "chat",
            "title, skill, mode and worktree are of new chats: leave them out, or leave out chat",
        )
