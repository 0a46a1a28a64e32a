"""The licence's files in the configuration folder.

``licence.key`` is the token, ``licence-issuer.pub`` the public keys of those whose licences hold
(one in a line; ``#`` begins a comment), and ``licence-issuer.key`` our own issuer's private key,
where there is one: only ``agentd licence issue`` reads it, and nobody else may.
"""

import asyncio
import socket
from os.path import basename

from agentd.clock import Clock, Timestamp
from agentd.disk import document
from agentd.disk.layout import Layout
from agentd.errors import AgentdError, Misconfigured, Mistake, NotFound
from agentd.proxy import licence
from agentd.proxy.licence import WHAT_TO_DO, Licence, LicenceStatus
from agentd.refresh import Refresh

LIMIT = 64 * 1024
SELF_DAYS = 3650
"""How long the licence that a workstation gives itself lasts."""
SELF_EDITION = "workstation"


class LicenceFile:
    """The files. Everything but ``stamps`` blocks."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    @property
    def names(self) -> frozenset[str]:
        """The files that decide, by name, in the configuration folder."""
        return frozenset(map(basename, (self._layout.licence, self._layout.licence_issuers)))

    def stamps(self) -> object:
        """Something that differs after every edit, by one look at each file."""
        return document.stamp(self._layout.licence), document.stamp(self._layout.licence_issuers)

    def status(self, now: Timestamp) -> LicenceStatus:
        """Whether there is a licence, and if not why; never raises."""
        try:
            token = self.token()
            if token is None:
                return LicenceStatus("missing", f"There is no licence. {WHAT_TO_DO}")
            return licence.standing(licence.verify(token, self.issuers()), now)
        except AgentdError as error:
            return LicenceStatus("invalid", f"{error.message.rstrip('.')}. {WHAT_TO_DO}")

    def token(self) -> str | None:
        """The token that is installed. ``Misconfigured`` or ``Unavailable``."""
        return self._text(self._layout.licence)

    def issuers(self) -> tuple[str, ...]:
        """The public keys of those whose licences hold. ``Misconfigured`` or ``Unavailable``."""
        path = self._layout.licence_issuers
        text = self._text(path, guarded=True) or ""
        found = []
        for number, line in enumerate(text.splitlines(), 1):
            public = line.partition("#")[0].strip()
            if public and not licence.is_issuer(public):
                what = f"this is no issuer's public key: one begins with {licence.ISSUER}."
                raise Misconfigured([Mistake(path, number, what)])
            found += [public] if public else []
        return tuple(found)

    def make_issuer(self) -> str:
        """Make our own issuer, whose licences then hold here; its public key is answered.

        ``Conflict`` when there is one already.
        """
        private, public = licence.new_issuer()
        document.make_folder(self._layout.config)
        document.create(self._layout.licence_issuer_key, f"{private}\n".encode())
        self._trust(public)
        return public

    def private_key(self) -> str:
        """Our own issuer's. ``NotFound``, ``Misconfigured`` when others may read it."""
        text = self._text(self._layout.licence_issuer_key, private=True)
        if text is None:
            raise NotFound("There is no issuer here; make one with: agentd licence issuer")
        return text

    def install(self, token: str) -> Licence:
        """Keep this token. ``BadRequest`` when it is of no issuer that is known here."""
        found = licence.verify(token, self.issuers())
        document.make_folder(self._layout.config)
        document.replace(self._layout.licence, f"{token}\n".encode())
        return found

    def install_own(self, now: Timestamp) -> Licence:
        """Give this workstation a licence of its own issuer, which is made if there is none."""
        try:
            private = self.private_key()
        except NotFound:
            self.make_issuer()
            private = self.private_key()
        public = licence.issuer_of(private)
        if public not in self.issuers():
            self._trust(public)
        holder = f"{_user()}@{socket.gethostname()}"
        return self.install(
            licence.signed(licence.lasting(holder, SELF_EDITION, now, SELF_DAYS), private)
        )

    def _trust(self, public: str) -> None:
        path = self._layout.licence_issuers
        found = document.read(path, LIMIT, guarded=True)
        before = found.data if found else b"# Whose licences hold here: one public key in a line.\n"
        before += b"" if before.endswith(b"\n") else b"\n"
        data = before + f"{public}\n".encode()
        document.replace(path, data, expected=found.stamp if found else None, mode=0o644)

    def _text(self, path: str, *, guarded: bool = False, private: bool = False) -> str | None:
        found = document.read(path, LIMIT, guarded=guarded, private=private)
        if found is None:
            return None
        try:
            return found.data.decode("ascii").strip()
        except UnicodeDecodeError:
            raise Misconfigured([Mistake(path, 0, "is no text of ours")]) from None


class LicenceBook:
    """The licence as it is now, on the loop: edits of its files hold at once."""

    def __init__(self, file: LicenceFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._status = LicenceStatus("missing", "The licence is not read yet.")
        self._stamps: object = None
        self._refresh = Refresh(self._read)

    @property
    def status(self) -> LicenceStatus:
        """What holds now: a licence also expires while nobody edits it."""
        found = self._status.licence
        if found and self._status.state == "valid":
            return licence.standing(found, self._clock.now())
        return self._status

    async def refresh(self) -> None:
        """Read the files if they were edited; costs two ``stat`` when they were not."""
        await self._refresh.now()

    def noticed(self, name: str) -> None:
        """A file of this name, in the configuration folder, was edited; by a ``Watcher``."""
        if name in self._file.names:
            self._refresh.soon()

    async def stop(self) -> None:
        """Leave off what is being read."""
        await self._refresh.stop()

    async def judged(self, token: str) -> LicenceStatus:
        """What would hold with this token. ``BadRequest`` with why it is none."""
        issuers = await asyncio.to_thread(self._file.issuers)
        return licence.standing(licence.verify(token.strip(), issuers), self._clock.now())

    async def install(self, token: str) -> LicenceStatus:
        """Keep this token. ``BadRequest`` with why it is none."""
        await asyncio.to_thread(self._file.install, token.strip())
        await self.refresh()
        return self.status

    async def _read(self) -> None:
        stamps = self._file.stamps()
        if stamps != self._stamps:
            self._status = await asyncio.to_thread(self._file.status, self._clock.now())
            self._stamps = stamps


def _user() -> str:
    from getpass import getuser  # noqa: PLC0415 - with it comes the terminal

    try:
        return getuser()
    except (KeyError, OSError):  # a user id without a name, as in a container
        return "somebody"
