"""The models as the extended surface lists and selects them.

Source: the remote-control specification, section 4, 'Extended surface'; fields are ours.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Struct, structs

from agentd.catalog.models import Model, Models
from agentd.chats.records import ChatChanged
from agentd.chats.service import ChatService
from agentd.errors import Mistake
from agentd.web.call import Answer, Call
from agentd.web.catalog_views import ModelView, model_view
from agentd.web.views import Id, Name

LOOK_AGAIN = 10.0
"""Seconds for which it is believed that a model can be used, or why not."""


class ModelNowView(ModelView, frozen=True, rename="camel"):
    """A model, and whether it can be used now, as far as cheap checks tell."""

    available: bool
    trouble: str
    """Why not: no program, no key. Empty: nothing is seen that hinders."""


class ModelsNowView(Struct, frozen=True, rename="camel"):
    """All models in the file's order."""

    models: list[ModelNowView]
    default: str
    """Empty: ``engine`` of the settings carries out the chats that name none."""
    mistakes: tuple[Mistake, ...]


class SelectModel(Struct, frozen=True, rename="camel"):
    """A model for a chat, or without one for all chats that name none; empty: none."""

    model: Name
    chat_id: Id | None = None


class SelectedModelView(Struct, frozen=True, rename="camel"):
    """What was selected."""

    model: str
    chat_id: Id | None


class ModelFile(Protocol):
    """What ``models.yml`` says (``disk.reload.Reloaded``)."""

    @property
    def current(self) -> Models:
        """What holds now."""
        ...

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """What is wrong with the file."""
        ...

    async def refresh(self) -> None:
        """Take up what the file says at the call."""
        ...


class Choosing(Protocol):
    """Keeps the default (``disk.choices.Choices``)."""

    async def model(self, name: str) -> None:
        """The model of chats that name none; empty: none."""
        ...


class ModelDesk:
    """The endpoints below ``/api/models``. ``trouble`` tells why a model cannot be used now."""

    def __init__(
        self,
        chats: ChatService,
        file: ModelFile,
        choices: Choosing,
        trouble: Callable[[Model], Awaitable[str]],
    ) -> None:
        self._chats = chats
        self._file = file
        self._choices = choices
        self._trouble = trouble
        self._looked = -LOOK_AGAIN
        self._seen: tuple[Models, list[str]] | None = None

    async def models(self, _: Call) -> Answer:
        """All models, with what they cost and whether they can be used."""
        await self._file.refresh()
        models = self._file.current
        told = [
            ModelNowView(
                **structs.asdict(model_view(model, models.default)),
                available=not trouble,
                trouble=trouble,
            )
            for model, trouble in zip(models.models, await self._troubles(models), strict=True)
        ]
        return Answer(ModelsNowView(told, models.default, self._file.mistakes))

    async def select_model(self, call: Call) -> Answer:
        """A model for one chat, or for those that name none."""
        wish = call.json(SelectModel)
        await self._file.refresh()
        if wish.model:
            self._file.current.find(wish.model)
        if wish.chat_id is None:
            await self._choices.model(wish.model)
        else:
            await self._chats.change(wish.chat_id, ChatChanged(model=wish.model), call.caller.by)
        return Answer(SelectedModelView(wish.model, wish.chat_id))

    async def _troubles(self, models: Models) -> list[str]:
        """Why each cannot be used; looked at anew when the file is another, or after a while."""
        now = asyncio.get_running_loop().time()
        if not self._seen or self._seen[0] is not models or now - self._looked >= LOOK_AGAIN:
            troubles = await asyncio.gather(*map(self._trouble, models.models))
            self._seen, self._looked = (models, troubles), now
            return troubles
        return self._seen[1]
