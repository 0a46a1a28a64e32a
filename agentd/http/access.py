"""Callers, roles and route groups: what a route requires of its caller. Pure."""

from enum import Enum, auto
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from agentd.core.errors import Forbidden

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""The methods that change nothing."""


Role: TypeAlias = Literal["nobody", "viewer", "manager", "administrator"]


ManagementScope: TypeAlias = Literal["read", "keys", "all"]
"""What a management key may do; logins and the key of ``PROXY_APP_HASH`` may do ``all``."""


class RouteGroup(Enum):
    """The kinds of address, by how they are guarded."""

    PUBLIC = auto()
    """No authentication; credentials are ignored. Answers reveal nothing that matters."""
    OPEN = auto()
    """No authentication needed, but an API key that is sent must be valid."""
    REMOTE = auto()
    """``/api/remote``: an API key, never a login."""
    EXTENDED = auto()
    """The other paths below ``/api``: an API key, which has the role manager, or a login."""
    LIVE = auto()
    """``/liveChatHub`` and below: as ``EXTENDED``, and the query may carry the API key."""
    MODELS = auto()
    """``/v1`` and ``/v1beta``: an access key of the model gateway, and nothing else."""
    MANAGE = auto()
    """``/api/agent``: a management key of the model gateway, or an administrator's login."""


class Credentials(Struct, frozen=True):
    """The credentials of a request; ``None`` where it has none.

    ``header`` is ``X-API-Key`` (sent twice: both values, with a comma between them), ``query`` the
    query parameter ``api_key``, ``session`` the login's token, ``access`` the access key in any of
    the places where clients of model APIs put it.
    """

    header: str | None = None
    query: str | None = None
    session: str | None = None
    access: str | None = None
    address: str = ""
    """The client's address, where an access key was sent."""


class Caller(Struct, frozen=True):
    """The caller of a request."""

    kind: Literal["nobody", "key", "user", "access", "management"]
    name: str
    role: Role
    session_id: str = ""
    """Identifies the login, where there is one; not a secret."""
    access_key_id: str = ""
    """The id of the access key, for requests to the model gateway; not a secret."""
    scope: ManagementScope = "all"
    """What a management key may do; of others only the role counts."""
    may_answer: bool = True
    """False for an API key without the scope ``answers``."""

    @property
    def identity(self) -> str:
        """The caller's name in records: ``key:laptop``, ``key:environment``, ``user:admin``."""
        return f"{self.kind}:{self.name}" if self.name else self.kind


ANONYMOUS = Caller("nobody", "", "nobody")


ROLE_ORDER: tuple[Role, ...] = ("nobody", "viewer", "manager", "administrator")
"""The roles from least to most: each includes the ones before it."""


def get_min_role(group: RouteGroup, method: str) -> Role:
    """Return the least role for a method in a route group, unless the route names another.

    A viewer may read. All messages of a hub client (also by ``POST``) only control what it
    receives, so for ``LIVE`` a viewer is enough.
    """
    if group in (RouteGroup.PUBLIC, RouteGroup.OPEN, RouteGroup.MODELS):
        return "nobody"
    if group is RouteGroup.MANAGE:
        return "administrator"
    return "viewer" if group is RouteGroup.LIVE or method in SAFE_METHODS else "manager"


_DESCRIPTION_PATHS = ("/api/agent", "/api/agent/openapi.json")
_KEYS_PATH = "/api/agent/keys"


def get_scopes(method: str, path: str) -> tuple[ManagementScope, ...]:
    """Return the scopes of management keys that may call a route, unless the route names others.

    ``read`` may read everything, ``keys`` may read and change access keys, and each may read the
    description of the API.
    """
    scopes: list[ManagementScope] = ["all"]
    if path == _KEYS_PATH or path.startswith(f"{_KEYS_PATH}/") or path in _DESCRIPTION_PATHS:
        scopes.insert(0, "keys")
    if method in SAFE_METHODS:
        scopes.insert(0, "read")
    return tuple(scopes)


def require_answers(caller: Caller) -> None:
    """Raise ``Forbidden`` for an API key that may not decide what agents ask people."""
    if not caller.may_answer:
        raise Forbidden(
            'This needs an API key with the scope "answers"',
            f'The key "{caller.name}" was made without it: a person decides this in the browser,'
            " or with another key.",
        )


def has_role(role: Role, least: Role) -> bool:
    """Return whether a role includes ``least``."""
    return ROLE_ORDER.index(role) >= ROLE_ORDER.index(least)


class Authenticator(Protocol):
    """Decides who may call (``auth.gate.Gate``)."""

    def authenticate(self, group: RouteGroup, credentials: Credentials) -> Caller:
        """Return the caller; raises ``Unauthorized`` or ``Disabled``."""
        ...


async def stay_admitted() -> None:
    """Confirm a caller that no gate admitted, or the daemon itself: do nothing."""
