"""One-time sign-in links for people who may write the state folder: ``agentd open``.

A link holds a code of 256 random bits behind ``#``: browsers keep that part to themselves, so it
reaches no server, proxy or log but by the request that signs in. The state folder holds the code's
SHA-256 as a file's name until it is used. Everything blocks.
"""

import os
import re
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from agentd.auth.login_codes import CODE_SECONDS
from agentd.core import ids
from agentd.core.clock import Clock, Timestamp, format_iso, parse_iso
from agentd.core.errors import AgentdError
from agentd.storage import document
from agentd.storage.layout import Layout

_CODE = re.compile("[0-9a-f]{64}")
_MAX_BYTES = 1024
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - to replace them


class SignInLinkJson(Struct, frozen=True):
    """The content of a link's file."""

    expires: Timestamp
    format: int = 1


def is_link_code(text: str) -> bool:
    """Return whether this looks like the code of a link, unlike the short codes for typing."""
    return bool(_CODE.fullmatch(text))


class SignInLinks:
    """The links that are open."""

    def __init__(self, layout: Layout, clock: Clock) -> None:
        self._folder = layout.sign_in_links
        self._clock = clock

    def create(self, url: str) -> str:
        """Return a link to the daemon that serves the state folder at ``url``."""
        document.make_folder(self._folder)
        self._remove_expired()
        code = ids.generate_session_token()
        expires = parse_iso(self._clock.now()) + timedelta(seconds=CODE_SECONDS)
        content = msgspec.json.encode(SignInLinkJson(format_iso(expires)))
        document.create_document(self._make_path(code), content + b"\n")
        return f"{_make_reachable(url)}/login#code={code}"

    def redeem(self, code: str) -> bool:
        """Return whether this is the code of an open link; it is used up then."""
        path = self._make_path(code)
        link = self._read(path)
        if link is None:
            return False
        try:
            os.unlink(path)  # of several who come at once, one removes it
        except OSError:
            return False
        return self._is_open(link)

    def _make_path(self, code: str) -> str:
        return os.path.join(self._folder, f"{sha256(code.encode()).hexdigest()}.json")

    def _read(self, path: str) -> SignInLinkJson | None:
        try:
            found = document.read_document(path, _MAX_BYTES, own=True)
            return msgspec.json.decode(found.data, type=SignInLinkJson) if found else None
        except (AgentdError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def _is_open(self, link: SignInLinkJson) -> bool:
        """Return whether a link has time left: little, for the clock may have gone back since."""
        now = self._clock.now()
        latest = format_iso(parse_iso(now) + timedelta(seconds=2 * CODE_SECONDS))
        return now < link.expires <= latest

    def _remove_expired(self) -> None:
        for name in os.listdir(self._folder):
            path = os.path.join(self._folder, name)
            link = self._read(path)
            if link is None or not self._is_open(link):
                with suppress(OSError):
                    os.unlink(path)


def _make_reachable(url: str) -> str:
    """Return an address that a browser of this machine can open: not that of all interfaces."""
    parts = urlsplit(url)
    host = _ANY_ADDRESS.get(parts.hostname or "", parts.hostname or "")
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}:{parts.port}"
