"""The licence: whether model requests are carried; management goes on without one."""

from collections.abc import Awaitable
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from agentd.proxy import licence
from agentd.proxy.licence import LicenceStatus
from agentd.proxy.management.service import Journal
from agentd.web.call import Answer, Call
from agentd.web.manage import shapes
from agentd.web.manage.resource import doing

LicenceView = shapes.shown(LicenceStatus)
"""Whether there is a licence, and if not why, with what to do; ``licence`` is what it says."""


class InstallLicence(Struct, frozen=True, forbid_unknown_fields=True):
    """The licence, as its issuer gave it."""

    token: Annotated[str, Meta(min_length=1, max_length=licence.LONGEST + 100)]
    """The licence, signed."""


class Licences(Protocol):
    """The licence as it is now (``disk.licence.LicenceBook``)."""

    @property
    def status(self) -> LicenceStatus:
        """What holds now."""
        ...

    def refresh(self) -> Awaitable[None]:
        """Return once it is as its files are."""
        ...

    def judged(self, token: str) -> Awaitable[LicenceStatus]:
        """What would hold with this token. ``BadRequest`` with why it is none."""
        ...

    def install(self, token: str) -> Awaitable[LicenceStatus]:
        """Keep this token. ``BadRequest`` with why it is none."""
        ...


class LicenceDesk:
    """The endpoints of ``/api/agent/licence``."""

    def __init__(self, licences: Licences, journal: Journal) -> None:
        self._licences = licences
        self._journal = journal

    async def licence(self, _: Call) -> Answer:
        """The status of now."""
        await self._licences.refresh()
        return Answer(shapes.told(self._licences.status, LicenceView))

    async def install_licence(self, call: Call) -> Answer:
        """Another licence instead; one that does not hold changes nothing."""
        token, how = call.json(InstallLicence).token.strip(), doing(call)
        if how.dry_run:
            return Answer(shapes.told(await self._licences.judged(token), LicenceView))
        async with self._journal.turn:
            before = self._licences.status
            status = await self._licences.install(token)
            await self._journal.note(
                how, "install", "licence", "licence", before=_shown(before), after=_shown(status)
            )
        return Answer(shapes.told(status, LicenceView))


def _shown(status: LicenceStatus) -> dict[str, object]:
    told = status.licence
    who = {"holder": told.holder, "edition": told.edition, "expires": told.expires} if told else {}
    return {"state": status.state, **who}
