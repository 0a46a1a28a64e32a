"""The settings in force while the daemon works, and the writing of new ones into ``agentd.yml``.

The file is followed like every hand-written one: an edit holds from when it is saved as far as
the setting allows it (``catalog.standing``), a broken edit changes nothing and is told. What was
said on the command line, in the environment or in ``.env`` comes before the file, then too.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from socket import AI_PASSIVE, SOCK_STREAM, getaddrinfo, socket

from msgspec import structs

from agentd.catalog.settings import Settings
from agentd.catalog.standing import MASK, SECRET, Standing, Written, kept, standings
from agentd.disk import splice
from agentd.disk.layout import Layout
from agentd.disk.reload import Reloaded
from agentd.disk.settings import Outside, parsed, written
from agentd.errors import BadRequest, Misconfigured, Mistake, nearest

NAMES = Settings.__struct_fields__


class SettingsInForce:
    """Follows ``agentd.yml`` from ``refresh`` on. ``changed`` is called on the loop.

    ``started`` is what the daemon started with; without ``outside`` it stays as it is.
    """

    def __init__(
        self,
        started: Settings,
        layout: Layout,
        outside: Outside | None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.current = started
        """What is in force now."""
        self._started = self._next = started
        self._path = layout.settings
        self._outside = outside
        self._changed = changed
        self._writing = asyncio.Lock()
        self.file = Reloaded(self._path, self._load, Written(started), self._taken)
        """What ``agentd.yml`` says now."""

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """Why the file as it is now is not taken; empty when it is."""
        return self.file.mistakes

    def standings(self, would: Settings | None = None) -> tuple[Standing, ...]:
        """How each setting stands, or ``would`` if the file said this."""
        typed = self._outside.typed if self._outside else {}
        if would is None:
            return standings(self.current, self._next, self.file.current, typed)
        lines, usual = self.file.current.lines, Settings()
        said = Written(
            would,
            {
                name: lines.get(name, 0)
                for name in NAMES
                if getattr(would, name) != getattr(usual, name)
            },
        )
        later = self._outside.settled(would, self._path) if self._outside else would
        return standings(kept(self._started, later), later, said, typed)

    async def read(self) -> Settings:
        """What the file says now, or said last without a mistake."""
        await self.refresh()
        return self.file.current.settings

    async def refresh(self) -> None:
        """Look at the file. When this returns, what it said at the call is in force, or told."""
        await self.file.refresh()

    async def change(
        self,
        changes: Mapping[str, object],
        check: Callable[[Settings], object] = bool,
        *,
        dry_run: bool = False,
    ) -> Settings:
        """Write these into the file, all or none; what may be is in force when this returns.

        ``None`` takes a setting out of the file, a mask leaves the secret as it is; ``check`` is
        given what the file says before, and may raise. The answer is what it says then. Raises
        ``BadRequest`` with every mistake, ``Conflict`` when the file has mistakes of its own or
        somebody else saved it meanwhile, and ``Unavailable``.
        """
        for name in changes:
            if name not in NAMES:
                raise BadRequest(f'There is no setting "{name[:64]}"{nearest(name, NAMES)}')
        wanted = {
            name: value for name, value in changes.items() if not (name in SECRET and value == MASK)
        }
        async with self._writing:
            after = await asyncio.to_thread(self._write, wanted, check, dry_run)
            if not dry_run:
                await self.refresh()
        return after.settings

    def _load(self) -> Written:
        if self._outside is None:
            return Written(self._started)
        said = written(self._path)
        self._outside.settled(said.settings, self._path)
        return said

    def _taken(self) -> None:
        if self._outside:
            self._next = self._outside.settled(self.file.current.settings, self._path)
            self.current = kept(self._started, self._next)
        self._changed()

    def _write(
        self, wanted: Mapping[str, object], check: Callable[[Settings], object], dry_run: bool
    ) -> Written:
        def fits(before: Written, after: Written) -> bool:
            check(before.settings)
            return _fits(wanted, before, after)

        put = partial(_put, wanted=wanted)
        if wanted.get("host"):
            _check_address(str(wanted["host"]))
        try:
            return splice.rewrite(self._path, self._parsed, put, fits, dry_run=dry_run)
        except Misconfigured as error:
            told = [mistake.what for mistake in error.mistakes]
            raise BadRequest(told[0], "\n".join(told[1:])) from error

    def _parsed(self, data: bytes) -> Written:
        said = parsed(self._path, data)
        if self._outside:
            self._outside.settled(said.settings, self._path)
        return said


def _check_address(host: str) -> None:
    """Raise ``BadRequest`` for an address that the next start could not listen on. Blocking."""
    try:
        for family, kind, proto, _, address in getaddrinfo(
            host, 0, type=SOCK_STREAM, flags=AI_PASSIVE
        ):
            with socket(family, kind, proto) as probe:
                probe.bind(address)
    except (OSError, UnicodeError) as error:
        told = getattr(error, "strerror", None) or error
        raise BadRequest(
            f"host: the next start could not listen on {host[:100]!r}: {told}",
            "Name an address of this host.",
        ) from error


def _put(text: splice.Text, wanted: Mapping[str, object]) -> None:
    for name, value in wanted.items():
        if value is None:
            text.drop((name,))
        else:
            text.set((name,), value)


def _fits(wanted: Mapping[str, object], before: Written, after: Written) -> bool:
    """Whether just what was wanted is another. ``BadRequest`` for what only a file may say."""
    for name, value in wanted.items():
        if value is not None and not _typed(value, structs.asdict(after.settings)[name]):
            raise BadRequest(f"{name}: found something else, expected text in quotes")
    others = [name for name in NAMES if name not in wanted]
    return all(getattr(before.settings, one) == getattr(after.settings, one) for one in others)


def _typed(sent: object, taken: object) -> bool:
    """In the file 5 may be a text, in JSON it is none."""
    if isinstance(sent, list) and isinstance(taken, tuple):
        return all(map(_typed, sent, taken))
    return isinstance(sent, str | dict) or not isinstance(taken, str)
