"""``push.json``: the key that signs notifications, and the subscribed browsers."""

from typing import Literal

import msgspec
from msgspec import Struct

from agentd.core.errors import ConfigError, ConfigProblem
from agentd.storage import document
from agentd.storage.layout import Layout
from agentd.ui.push.model import PushSubscription, check_browser_keys, check_private_key

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
            content = msgspec.json.decode(found.data, type=PushJson)
            _check_content(content)
        except ValueError as error:
            what = f"is damaged ({error}): delete it, then notifications are switched on anew"
            raise ConfigError([ConfigProblem(self._path, 0, what)]) from error
        return content

    def save(self, content: PushJson) -> None:
        """Store this content instead; ``Unavailable`` when it cannot be written."""
        document.replace_document(self._path, msgspec.json.encode(content) + b"\n")


def _check_content(content: PushJson) -> None:
    """Raise ``ValueError`` for keys that nothing can be signed with or encrypted for."""
    if content.key or content.subscriptions:
        check_private_key(content.key)
    for number, one in enumerate(content.subscriptions, 1):
        try:
            check_browser_keys(one.p256dh, one.auth)
        except ValueError as error:
            raise ValueError(f"subscription {number}: {error}") from error
