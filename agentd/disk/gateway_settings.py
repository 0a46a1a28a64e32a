"""``proxy.yml`` of the configuration folder: the settings of the model gateway.

It is written by hand, and by the API, which leaves every other byte as it is.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from agentd.disk import document, handwritten, splice
from agentd.disk.layout import Layout
from agentd.disk.reload import Reloaded
from agentd.errors import BadRequest, Misconfigured, Mistake, nearest
from agentd.proxy.channel import is_reference
from agentd.proxy.settings import GatewaySettings, contradictions


def load(layout: Layout) -> GatewaySettings:
    """The settings; the defaults without a file. Blocking.

    Raises ``Misconfigured`` with every mistake, also when others can read a password in the file,
    or ``Unavailable``.
    """
    path = layout.gateway_settings
    found = document.read(path, handwritten.LIMIT)
    settings = _parsed(path, found.data if found else b"")
    if _holds_secret(settings):
        document.read(path, handwritten.LIMIT, private=True)
    return settings


class GatewaySettingsBook:
    """The settings as they are now, and how they are changed.

    ``changed`` is called on the loop when they are others; ``file`` is ``proxy.yml`` where it is
    followed already.
    """

    def __init__(
        self,
        layout: Layout,
        changed: Callable[[], None] = lambda: None,
        file: Reloaded[GatewaySettings] | None = None,
    ) -> None:
        self._path = layout.gateway_settings
        usual = GatewaySettings()
        self.file = file or Reloaded(self._path, partial(load, layout), usual, changed)
        self._writing = asyncio.Lock()

    @property
    def current(self) -> GatewaySettings:
        """What holds now."""
        return self.file.current

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """What is wrong with the file; what it said before holds."""
        return self.file.mistakes

    async def read(self) -> GatewaySettings:
        """What the file says now, or said last without a mistake."""
        await self.file.refresh()
        return self.current

    async def change(
        self,
        changes: Mapping[str, object],
        check: Callable[[GatewaySettings], object] = bool,
        *,
        dry_run: bool = False,
    ) -> GatewaySettings:
        """Write these into the file, all or none, and answer what holds then.

        ``check`` is given what the file says before, and may raise. ``None`` takes a setting out
        of the file. Raises ``BadRequest`` with what cannot be, ``Conflict`` when the file has
        mistakes of its own or somebody else saved it meanwhile, and ``Unavailable``.
        """
        names = GatewaySettings.__struct_fields__
        for name in changes:
            if name not in names:
                raise BadRequest(f'There is no setting "{name[:64]}"{nearest(name, names)}')
        _refuse_wrong_types(changes)
        async with self._writing:
            after = await asyncio.to_thread(self._write, changes, check, dry_run)
            if dry_run:
                return after
            await self.file.refresh()
        return self.current

    def _write(
        self,
        wanted: Mapping[str, object],
        check: Callable[[GatewaySettings], object],
        dry_run: bool,
    ) -> GatewaySettings:
        def put(text: splice.Text) -> None:
            for name, value in wanted.items():
                if value is None:
                    text.drop((name,))
                else:
                    text.set((name,), value)

        def fits(before: GatewaySettings, after: GatewaySettings) -> bool:
            check(before)
            others = set(GatewaySettings.__struct_fields__) - wanted.keys()
            return all(getattr(before, name) == getattr(after, name) for name in others)

        try:
            return splice.rewrite(
                self._path,
                partial(_parsed, self._path),
                put,
                fits,
                private="export" in wanted,  # it may hold a password
                dry_run=dry_run,
            )
        except Misconfigured as error:
            told = [mistake.what for mistake in error.mistakes]
            raise BadRequest(told[0], "\n".join(told[1:])) from error


def _refuse_wrong_types(changes: Mapping[str, object]) -> None:
    """``BadRequest`` for what JSON has of another type: in a file 5 may be a text."""
    try:
        msgspec.convert(
            {name: value for name, value in changes.items() if value is not None}, GatewaySettings
        )
    except msgspec.ValidationError as error:
        raise BadRequest(str(error)) from error


def _parsed(path: str, data: bytes) -> GatewaySettings:
    return handwritten.load(path, data, GatewaySettings, contradictions)


def _holds_secret(settings: GatewaySettings) -> bool:
    """Whether others must not read the file."""
    password = settings.export.password
    return bool(password) and not is_reference(password)
