"""``push.json``: the key that signs notifications, and the subscribed browsers."""

from typing import Literal

import msgspec
from msgspec import Struct

from agentd.core.errors import ConfigError, ConfigProblem
from agentd.storage import document
from agentd.storage.layout import Layout
from agentd.ui.push.model import PushSubscription

_LIMIT = 4 * 1024 * 1024


class PushJson(Struct, frozen=True):
    """The content of ``push.json``."""

    format: Literal[1] = 1
    key: str = ""
    """The private key (VAPID): 32 bytes, base64url; empty before the first use."""
    subscriptions: tuple[PushSubscription, ...] = ()


class PushFile:
    """The file. Both methods block."""

    def __init__(self, layout: Layout) -> None:
        self._path = layout.push

    def load(self) -> PushJson:
        """Return the content. ``ConfigError`` when the file is damaged or readable by others."""
        found = document.read_document(self._path, _LIMIT, own=True, private=True)
        if found is None:
            return PushJson()
        try:
            return msgspec.json.decode(found.data, type=PushJson)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            what = f"is damaged ({error}): delete it, then notifications are switched on anew"
            raise ConfigError([ConfigProblem(self._path, 0, what)]) from error

    def save(self, content: PushJson) -> None:
        """Store this content instead; ``Unavailable`` when it cannot be written."""
        document.replace_document(self._path, msgspec.json.encode(content) + b"\n")
