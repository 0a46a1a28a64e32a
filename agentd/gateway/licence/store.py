"""The licence's files in the configuration folder.

``licence.key`` is the token, ``licence-issuer.pub`` the public keys of trusted issuers (one per
line; ``#`` begins a comment), and ``licence-issuer.key`` our own issuer's private key,
where there is one: only ``agentd licence issue`` reads it, and nobody else may.
"""

import asyncio
import socket
from os.path import basename

from agentd.core.clock import Clock, Timestamp
from agentd.core.errors import AgentdError, ConfigError, ConfigProblem, NotFound
from agentd.gateway.licence import licence
from agentd.gateway.licence.licence import WHAT_TO_DO, Licence, LicenceStatus
from agentd.storage import document
from agentd.storage.layout import Layout
from agentd.storage.watched_file import FileReading, WatchedFile

LIMIT = 64 * 1024
SELF_DAYS = 3650
"""The days for which a workstation's own licence is valid."""
SELF_EDITION = "workstation"


class LicenceFile:
    """The files. Everything but ``read_stamps`` blocks."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    @property
    def path(self) -> str:
        """The file of the licence itself."""
        return self._layout.licence

    @property
    def names(self) -> frozenset[str]:
        """The files that decide, by name, in the configuration folder."""
        return frozenset(map(basename, (self._layout.licence, self._layout.licence_issuers)))

    def read_stamps(self) -> object:
        """Return stamps of both files, which differ after every edit."""
        return document.get_stamp(self._layout.licence), document.get_stamp(
            self._layout.licence_issuers
        )

    def read_status(self, now: Timestamp) -> LicenceStatus:
        """Return whether there is a valid licence, and if not, why; never raises."""
        try:
            token = self.read_token()
            if token is None:
                return LicenceStatus("missing", f"There is no licence. {WHAT_TO_DO}")
            return licence.get_status(licence.verify(token, self.read_issuers()), now)
        except AgentdError as error:
            return LicenceStatus("invalid", f"{error.message.rstrip('.')}. {WHAT_TO_DO}")

    def check(self, now: Timestamp) -> None:
        """Raise ``ConfigError`` if one of the files is not valid; without a licence there is none.

        ``Unavailable`` when a file cannot be read.
        """
        self.read_issuers()
        status = self.read_status(now)
        if self.read_token() is not None and status.state != "valid":
            raise ConfigError([ConfigProblem(self.path, 0, status.reason)])

    def read_token(self) -> str | None:
        """Return the token that is installed. ``ConfigError`` or ``Unavailable``."""
        return self._read_text(self._layout.licence)

    def read_issuers(self) -> tuple[str, ...]:
        """Return the trusted issuers' public keys. ``ConfigError`` or ``Unavailable``."""
        path = self._layout.licence_issuers
        text = self._read_text(path, guarded=True) or ""
        found = []
        for number, line in enumerate(text.splitlines(), 1):
            public = line.partition("#")[0].strip()
            if public and not licence.is_issuer(public):
                what = f"not an issuer's public key: such a key begins with {licence.ISSUER}."
                raise ConfigError([ConfigProblem(path, number, what)])
            found += [public] if public else []
        return tuple(found)

    def make_issuer(self) -> str:
        """Create an issuer that is trusted here; return its public key.

        ``Conflict`` when there is one already.
        """
        private, public = licence.generate_issuer()
        document.make_folder(self._layout.config)
        document.create_document(self._layout.licence_issuer_key, f"{private}\n".encode())
        self._trust(public)
        return public

    def read_private_key(self) -> str:
        """Return our own issuer's private key. ``NotFound``, ``ConfigError``."""
        text = self._read_text(self._layout.licence_issuer_key, private=True)
        if text is None:
            raise NotFound("There is no issuer here; create one with: agentd licence issuer")
        return text

    def install(self, token: str) -> Licence:
        """Store this token. ``BadRequest`` if no trusted issuer signed it."""
        found = licence.verify(token, self.read_issuers())
        document.make_folder(self._layout.config)
        document.replace_document(self._layout.licence, f"{token}\n".encode())
        return found

    def install_own(self, now: Timestamp) -> Licence:
        """Install a licence of our own issuer, which is created if necessary."""
        try:
            private = self.read_private_key()
        except NotFound:
            self.make_issuer()
            private = self.read_private_key()
        public = licence.derive_issuer(private)
        if public not in self.read_issuers():
            self._trust(public)
        holder = f"{_get_user()}@{socket.gethostname()}"
        return self.install(
            licence.sign(licence.create_licence(holder, SELF_EDITION, now, SELF_DAYS), private)
        )

    def _trust(self, public: str) -> None:
        path = self._layout.licence_issuers
        found = document.read_document(path, LIMIT, own=True)
        before = found.data if found else b"# Trusted issuers: one public key per line.\n"
        before += b"" if before.endswith(b"\n") else b"\n"
        data = before + f"{public}\n".encode()
        document.replace_document(path, data, expected=found.stamp if found else None, mode=0o644)

    def _read_text(self, path: str, *, guarded: bool = False, private: bool = False) -> str | None:
        found = document.read_document(path, LIMIT, own=guarded, private=private)
        if found is None:
            return None
        try:
            return found.data.decode("ascii").strip()
        except UnicodeDecodeError:
            raise ConfigError([ConfigProblem(path, 0, "is not ASCII text")]) from None


class LicenceService:
    """The current licence, on the loop: edits of its files take effect at once."""

    def __init__(self, file: LicenceFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._watched = WatchedFile(
            file.path,
            self._read,
            LicenceStatus("missing", "The licence has not been read yet."),
            assess=FileReading,
            get_stamp=self._get_stamps,
        )

    @property
    def status(self) -> LicenceStatus:
        """The current status: a licence can expire without an edit."""
        status = self._watched.current
        if status.licence and status.state == "valid":
            return licence.get_status(status.licence, self._clock.now())
        return status

    async def refresh(self) -> None:
        """Read the files if they were edited; otherwise this costs two ``stat``."""
        await self._watched.refresh()

    async def ensure_current(self) -> None:
        """Do as ``refresh``, without a thread when nothing was edited."""
        await self._watched.ensure_current()

    def on_file_changed(self, name: str) -> None:
        """Schedule a reload if this is one of our files; called by a ``FolderWatcher``."""
        if name in self._file.names:
            self._watched.schedule()

    async def stop(self) -> None:
        """Stop reading."""
        await self._watched.stop()

    async def preview_status(self, token: str) -> LicenceStatus:
        """Return the status with this token. ``BadRequest`` says why it is invalid."""
        issuers = await asyncio.to_thread(self._file.read_issuers)
        return licence.get_status(licence.verify(token.strip(), issuers), self._clock.now())

    async def install(self, token: str) -> LicenceStatus:
        """Store this token. ``BadRequest`` says why it is invalid."""
        await asyncio.to_thread(self._file.install, token.strip())
        await self.refresh()
        return self.status

    def _get_stamps(self) -> object:
        return self._file.read_stamps()

    def _read(self) -> LicenceStatus:
        return self._file.read_status(self._clock.now())


def _get_user() -> str:
    from getpass import getuser  # noqa: PLC0415 - with it comes the terminal

    try:
        return getuser()
    except (KeyError, OSError):  # a user id without a name, as in a container
        return "somebody"
