"""The endpoints below ``/api/keys``: what the settings card 'Access keys' does.

Source: the remote-control specification, section 5; the paths are ours.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from msgspec import Meta, Struct

from agentd.access.service import KeyInfo, KeyService
from agentd.errors import Conflict, Misconfigured
from agentd.web.call import Answer, Call


class KeysView(Struct, frozen=True):
    """The named keys, and why none of them is accepted (empty: they are)."""

    keys: list[KeyInfo]
    trouble: str


class GenerateKey(Struct, frozen=True):
    """The name of the device or program that gets the key."""

    name: Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class NewKeyView(Struct, frozen=True):
    """A new key, shown this once: only a salted hash of it is kept."""

    name: str
    key: str


class KeyDesk:
    """Named access keys."""

    def __init__(self, keys: KeyService) -> None:
        self._keys = keys

    async def list_keys(self, _: Call) -> Answer:
        """Names, when they were made and last used; never the keys."""
        return Answer(KeysView(await self._keys.keys(), self._keys.trouble))

    async def generate_key(self, call: Call) -> Answer:
        """A key for a new name."""
        wish = call.json(GenerateKey)
        with _mendable():
            return Answer(
                NewKeyView(wish.name, await self._keys.generate(wish.name, call.caller.by)), 201
            )

    async def regenerate_key(self, call: Call) -> Answer:
        """Another key for a name; the one before opens nothing any more."""
        name = call.name()
        with _mendable():
            key = await self._keys.regenerate(name, call.caller.by)
        return Answer(
            NewKeyView(name, key),
            sent=lambda arrived: self._keys.told(name, key, arrived=arrived),
        )

    async def revoke_key(self, call: Call) -> Answer:
        """A key less; its live connections end within a second."""
        with_children = call.flag("children")
        with _mendable():
            return Answer(await self._keys.revoke(call.name(), with_children=with_children))


@contextmanager
def _mendable() -> Iterator[None]:
    """A file with mistakes is not edited: the caller is told, as of any contradiction."""
    try:
        yield
    except Misconfigured as error:
        raise Conflict("keys.yml has mistakes; mend them first", error.message) from error
