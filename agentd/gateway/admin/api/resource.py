"""Generic endpoints of one kind of resource: list, get, create, change, delete, with ETags."""

import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar
from urllib.parse import quote

from msgspec import Struct, structs

from agentd.core.errors import BadRequest, ConfigProblem, NotFound, Unavailable, suggest_name
from agentd.gateway.admin.api import shapes
from agentd.gateway.admin.api.listing import ResourceListing
from agentd.gateway.admin.changes import ChangeRequest
from agentd.gateway.admin.service import ManagedResource
from agentd.http.request import Request, Response
from agentd.http.routing import Parameter

E = TypeVar("E", bound=Struct)

_TAGS = re.compile(r'\s*"([0-9a-f]{1,64})"\s*(?:,|$)')

DRY_RUN = Parameter(
    "dry_run",
    "query",
    "With true, the change is only validated and its result returned; nothing is changed.",
    {"type": "boolean"},
)
IF_MATCH = Parameter(
    "If-Match",
    "header",
    "Change only if the resource still has this ETag, else 412; by default the last writer wins.",
    {"type": "string", "pattern": '^([*]|"[0-9a-f]{1,64}"(, *"[0-9a-f]{1,64}")*)$'},
)


class CopyRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The request to copy a resource."""

    name: str
    """Name of the copy."""


class ResourceTypes(NamedTuple):
    """The types of one kind of resource in requests and responses, from ``shapes``."""

    view: Any
    page: Any
    new: Any
    patch: Any


class ResourceEndpoints(ABC, Generic[E]):
    """The endpoints of one kind of resource; a subclass says how one is shown and made.

    ``problems`` returns why the resources' file, or a part of it, is not in force.
    ``route_builders.build_resource_routes`` makes their routes.
    """

    types: ClassVar[ResourceTypes]
    noun: ClassVar[str]
    """The word for one in errors, such as ``access key``."""
    path_parameter: ClassVar[str] = "name"
    """The parameter of the path that names one."""

    def __init__(
        self,
        managed: ManagedResource[E],
        listing: ResourceListing[E],
        problems: Callable[[], Sequence[ConfigProblem]],
    ) -> None:
        self.managed = managed
        self.listing = listing
        self._get_problems = problems

    def find(self, name: str) -> E:
        """Return the resource of this name.

        Raises ``NotFound``, or ``Unavailable`` if the file may have it, but is not in force.
        """
        found = self.find_known(name)
        if found is not None:
            return found
        self._require_readable()
        near = suggest_name(name, self.listing.names)
        raise NotFound(f'There is no {self.noun} "{name[:100]}"{near}')

    def find_known(self, name: str) -> E | None:
        """Return the resource that a client means by this name, if it is in force."""
        return self.listing.find(name)

    @abstractmethod
    def render(self, entry: E) -> Any:
        """Return the view of a resource, with secrets masked."""

    @property
    def has_entries_of_file(self) -> bool:
        """True if something of the resources' file is in force."""
        return bool(self.listing.names)

    async def refresh(self) -> None:
        """Read the resources again if their file changed; by default the route has done so."""

    def create(self, new: Any) -> E:
        """Make a resource from a request. ``BadRequest`` if it is invalid."""
        return shapes.from_request(new, self.managed.kind)

    def revise(self, old: E, patch: Any) -> E:
        """Return the resource with a patch applied. ``BadRequest`` if it is invalid."""
        return shapes.apply_patch(old, patch)

    def set_enabled(self, old: E, enabled: bool) -> E:
        """Return the resource enabled or disabled. ``BadRequest`` if it cannot be."""
        return structs.replace(old, enabled=enabled)

    async def list_page(self, call: Request) -> Response:
        """Return one page. ``Unavailable`` if nothing of the file is in force: it may have some."""
        await self.require_in_force()
        found, after = self.listing.get_page(call)
        return Response(self.types.page(items=[self.render(one) for one in found], next=after))

    async def get(self, call: Request) -> Response:
        """Return the resource named in the path."""
        await self.refresh()
        return self.respond(self._find_named(call))

    async def add(self, call: Request) -> Response:
        """Create a resource."""
        entry = self.create(call.parse_json(self.types.new))
        return self.respond(await self.managed.add(entry, parse_change_request(call)), 201)

    async def change(self, call: Request) -> Response:
        """Change the resource named in the path."""
        patch = call.parse_json(self.types.patch)
        return await self._change(call, lambda old: self.revise(old, patch), "change")

    async def enable(self, call: Request) -> Response:
        """Enable the resource named in the path."""
        return await self._change(call, lambda old: self.set_enabled(old, True), "enable")

    async def disable(self, call: Request) -> Response:
        """Disable the resource named in the path."""
        return await self._change(call, lambda old: self.set_enabled(old, False), "disable")

    async def remove(self, call: Request) -> Response:
        """Delete the resource named in the path."""
        await self.refresh()
        await self.managed.remove(self._name(call), parse_change_request(call))
        return Response(status=204)

    def respond(self, entry: E, status: int = 200) -> Response:
        """Build the response that shows one resource."""
        headers = {"ETag": f'"{self.managed.create_tag(entry)}"'}
        if status == 201:
            name = quote(self.managed.name(entry), safe="")
            headers["Location"] = f"/api/agent/{self.managed.resource}/{name}"
        return Response(self.render(entry), status, headers)

    async def _change(self, call: Request, revise: Callable[[E], E], action: str) -> Response:
        await self.refresh()
        name = self._name(call)
        return self.respond(
            await self.managed.change(name, revise, parse_change_request(call), action)
        )

    async def require_in_force(self) -> None:
        """Raise ``Unavailable`` if nothing of the file is in force, and it may have something."""
        await self.refresh()
        if not self.has_entries_of_file:
            self._require_readable()

    def _require_readable(self) -> None:
        if problems := self._get_problems():
            raise Unavailable(f"The {self.noun}s cannot be read", str(problems[0]))

    def _find_named(self, call: Request) -> E:
        return self.find(call.get_name(self.path_parameter))

    def _name(self, call: Request) -> str:
        return self.managed.name(self._find_named(call))


class CopyableEndpoints(ResourceEndpoints[E]):
    """The endpoints of resources that can be copied by the store's ``copy``."""

    def __init__(
        self,
        managed: ManagedResource[E],
        listing: ResourceListing[E],
        problems: Callable[[], Sequence[ConfigProblem]],
        copy: Callable[..., Awaitable[E]],
    ) -> None:
        super().__init__(managed, listing, problems)
        self._copy = copy

    async def copy(self, call: Request) -> Response:
        """Copy the resource named in the path, including its secrets."""
        make = partial(self._copy, self._name(call), call.parse_json(CopyRequest).name)
        return self.respond(
            await self.managed.create_with(make, parse_change_request(call), "copy"), 201
        )


def parse_change_request(call: Request) -> ChangeRequest:
    """Read who changes something, and how. ``BadRequest`` for an invalid parameter."""
    return ChangeRequest(
        by=call.caller.identity,
        remote=call.remote_ip,
        dry_run=call.get_flag("dry_run"),
        expects=_parse_if_match(call.headers.get("If-Match", "*")),
        confirm_caller=call.confirm_caller,
    )


def _parse_if_match(header: str) -> frozenset[str] | None:
    if header.strip() == "*":
        return None
    tags = _TAGS.findall(header)
    if _TAGS.sub("", header).strip() or not tags:
        raise BadRequest("If-Match must be * or a list of quoted ETags")
    return frozenset(tags)
