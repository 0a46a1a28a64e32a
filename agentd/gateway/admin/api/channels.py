"""Endpoints of channels: the gateway's connections to suppliers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta, structs

from agentd.core.errors import BadRequest, ConfigProblem, NotFound, Unavailable, suggest_name
from agentd.gateway.admin.api import shapes
from agentd.gateway.admin.api.checks import (
    MODEL,
    PAID,
    ChannelChecker,
    CheckRequest,
    CheckView,
    to_check_view,
)
from agentd.gateway.admin.api.listing import ResourceListing
from agentd.gateway.admin.api.resource import CopyableEndpoints, ResourceTypes
from agentd.gateway.admin.api.route_builders import (
    ResourceDocs,
    build_copy_route,
    build_resource_routes,
    build_route,
)
from agentd.gateway.admin.changes import ChangeRequest, MaskedFields
from agentd.gateway.admin.check import find_paid_request
from agentd.gateway.admin.service import ChangeLog, ManagedResource, ResourceStore
from agentd.gateway.channels.masking import (
    drop_bound_secrets,
    mask_channel,
    require_plain_secrets,
)
from agentd.gateway.channels.model import AutomaticDisabling, Channel
from agentd.http.request import Request, Response
from agentd.http.routing import Route
from agentd.models.model import Models

BY_GATEWAY = "gateway"
"""The author of the changes that the gateway makes by itself."""

ChannelView = shapes.define_view(
    Channel,
    models=Annotated[tuple[str, ...], Meta(description="Models with a route through it.")],
)
"""A channel with masked secrets, and the ``models`` with a route through it."""

NewChannel = shapes.define_new(Channel, "auto_disabled")
"""The request to create a channel."""


class ManagedChannels(ResourceStore[Channel], Protocol):
    """The stored channels (``gateway.channels.store``)."""

    @property
    def current(self) -> Mapping[str, Channel]:
        """The channels by name."""
        ...

    @property
    def problems(self) -> Sequence[ConfigProblem]:
        """Why their file is not in force."""
        ...

    async def copy(self, name: str, new: str, *, dry_run: bool = False) -> Channel:
        """Copy a channel under another name."""
        ...


class ChannelEndpoints(CopyableEndpoints[Channel]):
    """The endpoints below ``/api/agent/channels``.

    ``models`` returns the content of ``models.yml``, ``busy`` says what else uses a channel, and
    ``checks`` tests one.
    """

    types = ResourceTypes(
        ChannelView,
        shapes.define_page(ChannelView),
        NewChannel,
        shapes.define_patch(Channel, "auto_disabled", readonly=("models", "auto_disabled")),
    )
    noun = "channel"

    def __init__(
        self,
        channels: ManagedChannels,
        models: Callable[[], Models],
        journal: ChangeLog,
        busy: Callable[[Channel], str],
        checks: ChannelChecker,
    ) -> None:
        self._checks = checks
        self._known: tuple[Models | None, Mapping[str, tuple[str, ...]]] = (None, {})
        self._views: dict[str, tuple[Channel, tuple[str, ...], Any]] = {}
        self._views_of: object = None
        self._channels = channels
        self._models = models
        managed = ManagedResource[Channel](
            "channels",
            Channel,
            channels,
            journal,
            name=lambda one: one.name,
            show=self._to_log_fields,
            busy=busy,
        )
        listing = ResourceListing[Channel](
            lambda: channels.current,
            self._list_channels,
            lambda one: one.name,
            lambda one: one.enabled,
        )
        super().__init__(managed, listing, lambda: channels.problems, channels.copy)

    def create(self, new: Any) -> Channel:
        """Make a channel, which needs its secrets themselves and no masks of them."""
        return require_plain_secrets(super().create(new))

    def revise(self, old: Channel, patch: Any) -> Channel:
        """Apply a patch; a channel's key is never sent to another URL."""
        along = drop_bound_secrets(old, super().revise(old, patch))
        return require_plain_secrets(super().revise(along, patch), old)

    async def disable_automatically(self, refused: Channel, note: AutomaticDisabling) -> bool:
        """Disable a channel that its supplier refused, and note why; false: it was changed since.

        Raises as every change does.
        """

        def disable(old: Channel) -> Channel:
            if old.clear_outdated() != refused:
                return old
            return structs.replace(old, enabled=False, auto_disabled=note)

        request = ChangeRequest(by=BY_GATEWAY)
        after = await self.managed.change(refused.name, disable, request, "disable")
        return after.auto_disabled == note

    def render(self, channel: Channel) -> Any:
        """Return a view, cached while the channel and its models are unchanged: pages have 200."""
        if self._views_of is not self._channels.current:
            self._views, self._views_of = {}, self._channels.current
        using = self._get_models_by_channel().get(channel.name, ())
        known = self._views.get(channel.name)
        if known is None or known[0] is not channel or known[1] is not using:
            view = shapes.to_view(mask_channel(channel), ChannelView, models=using)
            known = self._views[channel.name] = channel, using, view
        return known[2]

    async def check_channel(self, call: Request) -> Response:
        """Test a channel step by step; with ``paid`` including a model request."""
        channel = self.find(call.get_name())
        known = {one.name: one for one in self._models().proxy}
        named = call.get_query("model")
        if named and named not in known:
            raise BadRequest(f'There is no model "{named[:100]}"{suggest_name(named, known)}')
        model = known.get(named or next(iter(self._models().list_using(channel.name)), ""))
        paid = call.get_flag("paid")
        if paid and (model is None or find_paid_request(channel, model) is None):
            raise BadRequest(
                "No model has a route through this channel", "Name one that has: model=…"
            )
        request = CheckRequest(model, paid, call.request_id, call.remote_ip)
        return Response(to_check_view(await self._checks.check(channel, request)))

    def _list_channels(self) -> Iterable[Channel]:
        return self._channels.current.values()

    def _get_models_by_channel(self) -> Mapping[str, tuple[str, ...]]:
        """Return the models of each channel; cached while ``models.yml`` is unchanged."""
        now = self._models()
        if self._known[0] is not now:
            self._known = (now, now.by_channel)
        return self._known[1]

    def _to_log_fields(self, channel: Channel) -> MaskedFields:
        fields: MaskedFields = msgspec.to_builtins(
            shapes.to_view(mask_channel(channel), shapes.define_view(Channel))
        )
        return fields


_DOCS = ResourceDocs(
    path="/api/agent/channels/{name}",
    types=ChannelEndpoints.types,
    noun="channel",
    list="List channels by name; secrets are masked.",
    create="Create a channel; it takes effect at once.",
    create_example={
        "name": "openai",
        "dialects": ["openai-responses", "openai-chat"],
        "url": "https://api.openai.com/v1",
        "key": "sk-0123456789abcdef",
    },
    get="Get one channel; secrets are masked.",
    change="Change a channel: absent fields stay, null resets to the default. A masked secret"
    " stands for the stored one. With another url the channel has no secret until a new one"
    " is sent, and a masked one is refused.",
    change_example={"timeout": 120, "coolDown": None},
    delete="Delete a channel unless a model or key uses it.",
    enable="Enable a channel; why it was disabled automatically is forgotten.",
    disable="Disable a channel: no request uses it.",
)


def routes(endpoints: ChannelEndpoints) -> tuple[Route, ...]:
    """Return the routes of channels."""
    check = build_route(
        "POST",
        f"{_DOCS.path}/check",
        endpoint=endpoints.check_channel,
        summary="Test a channel step by step through its own transport: DNS, connection, TLS,"
        " authentication by its list of models, and only with paid=true a small model request.",
        response_type=CheckView,
        errors=(BadRequest, NotFound, Unavailable),
        parameters=(PAID, MODEL),
    )
    copy = build_copy_route(
        endpoints,
        _DOCS,
        "Copy a channel, including its secrets, under another name.",
        "openai-2",
    )
    return build_resource_routes(endpoints, _DOCS, (check, copy))
