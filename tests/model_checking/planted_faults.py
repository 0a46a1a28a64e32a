"""Faults to plant into the real code: a check that does not find them checks nothing."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from agentd.chats import queue as queue_rules
from agentd.chats import service
from agentd.chats.service import ChatService
from agentd.chats.state import Chat
from agentd.gateway.ledger import ledger
from agentd.gateway.limits import meters
from agentd.gateway.limits.spend import Reservation, UsageMeter
from agentd.live import feed
from agentd.live.signalr.resumption import Resumption
from agentd.live.signalr.send_buffer import SendBuffer
from agentd.storage import journal


class PlantedFault(NamedTuple):
    """A fault, the subject that must show it, and the attribute that has it."""

    name: str
    subject: str
    owner: Any
    attribute: str
    make: Callable[[Any], Any]
    """Returns the faulty version of the attribute."""

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Have the real code do it wrong within the block."""
        with patch.object(
            self.owner, self.attribute, self.make(getattr(self.owner, self.attribute))
        ):
            yield


def _do_nothing(_: Any) -> Any:
    return lambda *_, **__: None


def _keep_version(rearrange: Any) -> Any:
    def keep(self: Chat, *args: Any) -> None:
        version = self.queue_version
        rearrange(self, *args)
        self.queue_version = version

    return keep


def _forget_sent(replace: Any) -> Any:
    return lambda queue, wanted, sent, fresh: replace(queue, wanted, (), fresh)


def _close_unsynced(_: Any) -> Any:
    return lambda job, fd: os.close(fd)


def _reserve_nothing(_: Any) -> Any:
    return lambda self, upper, tokens: Reservation(upper, tokens)


def _leave_open(settle: Any) -> Any:
    def settle_again(self: UsageMeter, reservation: Reservation, *args: Any) -> None:
        settle(self, reservation, *args)
        reservation.open = True

    return settle_again


def _count_another(_: Any) -> Any:
    return lambda *_: "another account"


def _skip_nothing(_: Any) -> Any:
    async def pass_on(batches: Any, after: Any) -> Any:
        async for batch in batches:
            yield batch

    return pass_on


def _leave_out_last(list_after: Any) -> Any:
    return lambda self, seq, upto: list_after(self, seq, upto - 1)


def _acknowledge_more(acknowledge: Any) -> Any:
    return lambda self, number: acknowledge(self, number + 1)


def _take_as_new(count: Any) -> Any:
    return lambda self, now: bool(count(self, now)) or True


FAULTS = (
    PlantedFault(
        "versions are not compared", "queue", service, "_require_version", _do_nothing
    ),
    PlantedFault("pausing keeps the version", "queue", Chat, "_rearrange", _keep_version),
    PlantedFault(
        "sent prompts are taken for unknown ones", "queue", queue_rules, "replace_queue",
        _forget_sent,
    ),
    PlantedFault(
        "repeated requests append again", "queue", ChatService, "_find_earlier_result", _do_nothing
    ),
    PlantedFault("appends are not synced", "journal", journal, "_sync", _close_unsynced),
    PlantedFault("names are not synced", "journal", journal, "sync_folder", _do_nothing),
    PlantedFault(
        "failed writes are acknowledged", "journal", journal, "_make_error", _do_nothing
    ),
    PlantedFault("reservations do not count", "ledger", UsageMeter, "take", _reserve_nothing),
    PlantedFault("calls are settled twice", "ledger", UsageMeter, "settle", _leave_open),
    PlantedFault(
        "interrupted calls cost nothing", "ledger", ledger, "record_interrupted_calls",
        lambda _: lambda *_: 0,
    ),
    PlantedFault(
        "a start forgets what is shared", "ledger", meters, "format_shared_account", _count_another
    ),
    PlantedFault(
        "a record is sent again from its beginning", "stream", feed, "_skip_seen", _skip_nothing
    ),
    PlantedFault(
        "the last missed record is left out", "stream", feed._RecentEvents, "list_after",
        _leave_out_last,
    ),
    PlantedFault(
        "more than was acknowledged is dropped", "session", Resumption, "on_acknowledged",
        _acknowledge_more,
    ),
    PlantedFault("repeated calls are carried out", "session", Resumption, "count_received",
                 _take_as_new),
    PlantedFault("nothing is sent again", "session", SendBuffer, "send_again", _do_nothing),
)  # fmt: skip
