"""The access keys of the gateway, as they are managed: limits, lists, and what is spent.

The letters of a key are told once, when it is made or issued anew.
"""

from collections.abc import Awaitable, Callable, Iterable
from datetime import tzinfo
from decimal import Decimal
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta, Struct

from agentd.clock import Clock, Timestamp
from agentd.errors import BadRequest, NotFound, Unavailable, nearest
from agentd.proxy.access_key import AccessKey, folded, issue, reissue
from agentd.proxy.keyring import AccessKeys
from agentd.proxy.management.changes import Shown
from agentd.proxy.management.service import Book, Journal, Managed
from agentd.proxy.spend import LimitStanding, Used
from agentd.web.call import Answer, Call
from agentd.web.manage import shapes
from agentd.web.manage.listing import Listing
from agentd.web.manage.resource import Resource, doing

_OURS = ("id", "secret", "created", "created_by", "before", "before_until")
_HIDDEN = ("secret", "before", "before_until")

LONGEST_GRACE = 30 * 86400
"""Seconds for which letters may be good after others were issued."""


class SpentView(Struct, frozen=True):
    """USD that a key has spent, in all and in the windows of now."""

    total: Decimal
    """Ever."""
    day: Decimal
    """In the day of now."""
    week: Decimal
    """In the week of now."""
    month: Decimal
    """In the month of now."""
    zone: str
    """The time zone in which these begin."""


class StandingView(Struct, frozen=True):
    """One limit, and how much of it is gone: the numbers that enforce it."""

    name: str
    """As in ``limits``."""
    limit: Decimal
    """What it allows."""
    used: Decimal
    """What is gone."""
    reserved: Decimal
    """By the calls under way."""
    resets: Timestamp | None
    """When ``used`` is 0 again; null: never."""


_MORE: dict[str, Any] = {
    "last4": Annotated[str, Meta(description="Its last letters, to tell it by.")],
    "previous_until": Annotated[
        Timestamp | None, Meta(description="Until when the letters before these are good, too.")
    ],
    "spent": Annotated[SpentView, Meta(description="USD, by the numbers that enforce limits.")],
    "standing": Annotated[
        tuple[StandingView, ...], Meta(description="Each limit, and how much of it is gone.")
    ],
}
_LETTERS = Annotated[str, Meta(description="The key itself, told this once; empty in a dry run.")]
AccessKeyView = shapes.shown(AccessKey, *_HIDDEN, **_MORE)
"""A key without its letters: the ``last4`` of them, and until when those before them are good."""
AccessKeyPage = shapes.listed(AccessKeyView)
IssuedKeyView = shapes.shown(AccessKey, *_HIDDEN, called="IssuedKeyView", key=_LETTERS, **_MORE)
NewAccessKey = shapes.new(AccessKey, *_OURS)
AccessKeyPatch = shapes.patch(AccessKey, *_OURS, readonly=("id", "created", "created_by", *_MORE))
_Noted = shapes.shown(AccessKey, *_HIDDEN, called="NotedKey", last4=str)


class Reissue(Struct, frozen=True, forbid_unknown_fields=True):
    """For how many seconds the letters of now are good beside the new ones."""

    grace: Annotated[int, Meta(ge=0, le=LONGEST_GRACE)] = 0
    """Seconds for which the letters of now stay good."""


class Keys(Protocol):
    """The keys as they are now (``disk.access_key_book.AccessKeyBook``)."""

    @property
    def keys(self) -> AccessKeys:
        """Those that are valid."""
        ...

    def fresh(self) -> Awaitable[None]:
        """Return once they are as their file is."""
        ...

    def reissue(
        self, key_id: str, revise: Callable[[AccessKey], AccessKey], *, dry_run: bool = False
    ) -> Awaitable[AccessKey]:
        """Give a key other letters; those before hold until ``answer``."""
        ...

    def answer(self, key: AccessKey) -> Awaitable[None]:
        """Refuse the letters before: the new ones are about to be told."""
        ...

    def told(self, key: AccessKey, *, arrived: bool) -> None:
        """Take note whether the new letters were told."""
        ...


class Meter(Protocol):
    """What one key spends (``proxy.spend.Meter``)."""

    @property
    def used(self) -> Used:
        """By now."""
        ...


class Meters(Protocol):
    """What every key spends (``proxy.meters.Meters``)."""

    @property
    def zone(self) -> tzinfo:
        """In which days, weeks and months begin."""
        ...

    def of(self, key: AccessKey) -> Meter:
        """The meter of a key."""
        ...

    def standing(self, key: AccessKey) -> tuple[LimitStanding, ...]:
        """Each limit of a key and how much of it is gone."""
        ...


class AccessKeyDesk:
    """The endpoints below ``/api/agent/keys``; ``book`` changes what ``keys`` tells."""

    def __init__(
        self, keys: Keys, book: Book[AccessKey], meters: Meters, clock: Clock, journal: Journal
    ) -> None:
        self._keys = keys
        self._meters = meters
        self._clock = clock
        self.managed = Managed[AccessKey](
            "keys", AccessKey, book, journal, name=lambda one: one.id, show=_noted
        )
        listing = Listing[AccessKey](
            lambda: keys.keys, self._all, lambda one: one.name, lambda one: one.enabled
        )
        self._one = Resource[AccessKey](
            self.managed, listing, self._find, self._view, AccessKeyPage, "id"
        )

    async def list_access_keys(self, call: Call) -> Answer:
        """Page by page."""
        await self._keys.fresh()
        return self._one.listed(call)

    async def one_access_key(self, call: Call) -> Answer:
        """One of them, by its id or name."""
        await self._keys.fresh()
        return self._one.one(call)

    async def issue_access_key(self, call: Call) -> Answer:
        """One more; its letters are told this once."""
        wish = call.json(NewAccessKey)
        letters, kept = _issued(wish.name, self._clock.now(), call.caller.by)
        ours = {name: getattr(kept, name) for name in _OURS}
        made = shapes.made(wish, AccessKey, **ours)
        return self._telling(await self._one.add(call, made), made, call, letters)

    async def change_access_key(self, call: Call) -> Answer:
        """Other limits, lists, …; its letters stay."""
        await self._keys.fresh()
        wish = call.json(AccessKeyPatch)
        return await self._one.change(call, lambda old: shapes.patched(old, wish))

    async def reissue_access_key(self, call: Call) -> Answer:
        """Other letters, told this once; those before are good for a while, if that is wished."""
        await self._keys.fresh()
        grace = call.json(Reissue).grace
        letters: list[str] = []

        def revised(old: AccessKey) -> AccessKey:
            told, kept = reissue(old, self._clock.now(), grace, call.caller.by)
            letters.append(told)
            return kept

        known = self._find(call.name("id"))
        wanted = doing(call)
        made: list[AccessKey] = []

        async def write(
            key_id: str, revise: Callable[[AccessKey], AccessKey], *, dry_run: bool
        ) -> AccessKey:
            made.append(await self._keys.reissue(key_id, revise, dry_run=dry_run))
            return made[0]

        try:
            key = await self.managed.change(known.id, revised, wanted, "reissue", write)
            if wanted.dry_run:
                return self._telling(self._one.told(key), key, call, "")
            await self._keys.answer(key)
            answer = self._telling(self._one.told(key), key, call, letters[0])
        except BaseException as error:  # nobody gets the letters: not who hung up, either
            if made and not wanted.dry_run:
                self._keys.told(made[0], arrived=False)
            if made and isinstance(error, Unavailable):
                what = "The key was not reissued: its letters before are good as they were"
                raise Unavailable(what, error.details or error.message) from error
            raise
        answer.sent = lambda arrived: self._keys.told(key, arrived=arrived)
        return answer

    async def enable_access_key(self, call: Call) -> Answer:
        """It opens something again."""
        await self._keys.fresh()
        return await self._one.enable(call, True)

    async def disable_access_key(self, call: Call) -> Answer:
        """It opens nothing from the next request on."""
        await self._keys.fresh()
        return await self._one.enable(call, False)

    async def remove_access_key(self, call: Call) -> Answer:
        """One less; it opens nothing from the next request on."""
        await self._keys.fresh()
        return await self._one.remove(call)

    def _telling(self, answer: Answer, key: AccessKey, call: Call, letters: str) -> Answer:
        """The answer with the letters in it, unless nothing was made."""
        told = "" if doing(call).dry_run else letters
        answer.body = self._told(key, IssuedKeyView, told)
        return answer

    def _all(self) -> Iterable[AccessKey]:
        return self._keys.keys

    def _find(self, name: str) -> AccessKey:
        """By id, else by name."""
        known = self._keys.keys
        found = known.find(name)
        if found is None:
            found = next((key for key in known if folded(key.name) == folded(name)), None)
        if found is None:
            near = nearest(name, [key.name for key in known]) if len(known) else ""
            raise NotFound(f'There is no access key "{name[:100]}"{near}')
        return found

    def _spent(self, key: AccessKey) -> SpentView:
        used = self._meters.of(key).used
        return SpentView(used.total, used.day, used.week, used.month, str(self._meters.zone))

    def _view(self, key: AccessKey) -> Any:
        return self._told(key, AccessKeyView)

    def _told(self, key: AccessKey, view: Any, letters: str = "") -> Any:
        return shapes.told(
            key,
            view,
            last4=key.secret.last4,
            previous_until=key.before_until,
            spent=self._spent(key),
            standing=tuple(map(_standing, self._meters.standing(key))),
            key=letters,
        )


def _issued(name: str, now: Timestamp, by: str) -> tuple[str, AccessKey]:
    try:
        return issue(name, now, by)
    except ValueError as error:
        raise BadRequest("It cannot be so", str(error)) from error


def _standing(one: LimitStanding) -> StandingView:
    first, *rest = one.name.split("_")
    name = first + "".join(map(str.title, rest))
    limit, used, reserved = map(Decimal, (one.limit, one.used, one.reserved))
    return StandingView(name, limit, used, reserved, one.resets)


def _noted(key: AccessKey) -> Shown:
    noted: Shown = msgspec.to_builtins(shapes.told(key, _Noted, last4=key.secret.last4))
    return noted
