"""The endpoints below ``/api/chat-labels``; the list itself is ``labels.yml``.

Source: the remote-control specification, section 4, 'Extended surface'; paths and bodies below
its prefix are ours.
"""

from typing import Annotated

from msgspec import Meta, Struct

from agentd.catalog.labels import Color, Label, LabelName
from agentd.chats.labelling import Labelling
from agentd.web.call import Answer, Call
from agentd.web.views import Id

MOST_CHATS = 1000
"""Chats that one request gives a label to."""


class LabelRow(Struct, frozen=True):
    """A label, and how many chats bear it."""

    name: str
    color: str
    chats: int


class LabelsView(Struct, frozen=True):
    """All labels, in their order."""

    labels: list[LabelRow]


class ChangeLabel(Struct, frozen=True):
    """What to change; what is absent stays."""

    name: LabelName | None = None
    color: Color | None = None


class LabelledChats(Struct, frozen=True, rename="camel"):
    """The chats that are meant."""

    chat_ids: Annotated[list[Id], Meta(min_length=1, max_length=MOST_CHATS)]


class LabelDesk:
    """The labels, and who bears them."""

    def __init__(self, labelling: Labelling) -> None:
        self._labelling = labelling

    async def list_labels(self, _: Call) -> Answer:
        """All labels."""
        rows = [
            LabelRow(label.name, label.color, chats)
            for label, chats in await self._labelling.labels()
        ]
        return Answer(LabelsView(rows))

    async def create_label(self, call: Call) -> Answer:
        """One more, at the end of the list."""
        label = call.json(Label)
        await self._labelling.create(label)
        return Answer(label, 201)

    async def change_label(self, call: Call) -> Answer:
        """Another name, which the chats that bear it follow, or another colour."""
        wish = call.json(ChangeLabel)
        by = call.caller.by
        return Answer(await self._labelling.change(call.name(), wish.name, wish.color, by))

    async def delete_label(self, call: Call) -> Answer:
        """One less, in the chats too."""
        await self._labelling.delete(call.name(), call.caller.by)
        return Answer(status=204)

    async def assign_label(self, call: Call) -> Answer:
        """These chats bear it, too."""
        return await self._assign(call, bear=True)

    async def unassign_label(self, call: Call) -> Answer:
        """These chats bear it no longer."""
        return await self._assign(call, bear=False)

    async def _assign(self, call: Call, *, bear: bool) -> Answer:
        chats = dict.fromkeys(call.json(LabelledChats).chat_ids)
        await self._labelling.assign(call.name(), chats, call.caller.by, bear=bear)
        return Answer(status=204)
