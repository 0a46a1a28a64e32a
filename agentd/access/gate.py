"""Who is let in, and as whom: the only authority.

Specification, section 5. The order is: a key that was sent decides, whatever login comes with
it; then a login; then nobody. Nothing here waits or looks at a file.
"""

import hmac
from enum import Enum, auto
from hashlib import sha256
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from agentd.access.key import LONGEST
from agentd.errors import Disabled, ManagementDisabled, Unauthorized

Role: TypeAlias = Literal["nobody", "viewer", "manager", "administrator"]

REFUSED = "Invalid or missing API key"
"""The specified words (section 5.8)."""

DISABLED = (
    "The remote API is disabled: the environment variable AGENT_API_KEY is not set"
    " and keys.yml defines no keys"
)
"""It names both sources, as specified."""

MANAGEMENT_DISABLED = (
    "The management of the model gateway is disabled:"
    " the environment variable PROXY_APP_HASH is not set"
)
"""The proxy specification, section 5.3."""


class Surface(Enum):
    """The kinds of address, by how they are guarded."""

    PUBLIC = auto()
    """Anybody may call, whatever they bring: nothing is told that matters."""
    OPEN = auto()
    """Anybody may call; a key that comes along must be good."""
    REMOTE = auto()
    """``/api/remote``: a key, never a login."""
    EXTENDED = auto()
    """The wider set of paths: a key acts as manager, or a login."""
    LIVE = auto()
    """``/liveChatHub`` and below: as the extended set, and the address may carry the key."""
    MODELS = auto()
    """``/v1`` and ``/v1beta``: an access key of the model gateway, and nothing else."""
    MANAGE = auto()
    """``/api/agent``: the management key of the model gateway, or an administrator's login."""


class Presented(Struct, frozen=True):
    """What a request brought to be let in; ``None`` is what it did not bring.

    ``header`` is ``X-API-Key`` (twice: both values, with a comma between them), ``query`` is
    ``api_key`` of the address, ``session`` the login's token, ``access`` what stands where clients
    of models put their key.
    """

    header: str | None = None
    query: str | None = None
    session: str | None = None
    access: str | None = None


class Caller(Struct, frozen=True):
    """Who is calling."""

    kind: Literal["nobody", "key", "user", "access", "management"]
    name: str
    role: Role
    session: str = ""
    """Names the login, where there is one; no secret."""
    access: str = ""
    """The id of the access key, on a surface for models; no secret."""

    @property
    def by(self) -> str:
        """How the caller is recorded: ``key:laptop``, ``key:environment``, ``user:admin``."""
        return f"{self.kind}:{self.name}" if self.name else self.kind


NOBODY = Caller("nobody", "", "nobody")


class Keys(Protocol):
    """The keys that are good now."""

    @property
    def configured(self) -> bool:
        """Whether there is any source of keys."""
        ...

    def match(self, presented: str) -> str | None:
        """The name of the key that this is, or ``None``."""
        ...


class Logins(Protocol):
    """People who are signed in."""

    def caller(self, session: str) -> Caller | None:
        """Whose session this is, or ``None`` when it is nobody's."""
        ...


class AccessKeys(Protocol):
    """The keys of the model gateway that are good now."""

    def admit(self, presented: str) -> Caller:
        """Whose key this is; raises ``Unauthorized`` with why it is none that is good now."""
        ...


class Gate:
    """Lets a request in as a ``Caller``, or raises ``Unauthorized`` or ``Disabled``.

    Without ``logins`` nobody can sign in, without ``access`` no model can be called.
    ``management`` is the SHA-256 of the management key, or empty.
    """

    def __init__(
        self,
        keys: Keys,
        logins: Logins | None = None,
        access: AccessKeys | None = None,
        management: str = "",
    ) -> None:
        self._management = bytes.fromhex(management)
        self._keys = keys
        self._logins = logins
        self._access = access

    def admit(self, surface: Surface, presented: Presented) -> Caller:
        """Decide. The keys must be fresh (``KeyService.fresh``)."""
        if surface is Surface.PUBLIC:
            return NOBODY
        if surface is Surface.MODELS:
            return self._by_access_key(presented.access)
        if surface is Surface.MANAGE:
            return self._for_management(presented)
        sent = [presented.header]
        if surface is Surface.LIVE:
            sent.append(presented.query)
        keys = {key for key in sent if key is not None}
        if self._keys.configured:
            if keys or surface is Surface.REMOTE:
                return self._by_key(keys)
        elif surface is Surface.REMOTE:
            raise Disabled(DISABLED)
        return NOBODY if surface is Surface.OPEN else self._by_login(presented.session)

    def _by_key(self, keys: set[str]) -> Caller:
        """The one key that was sent; sent twice (header and address), it must be the same."""
        name = self._keys.match(keys.pop()) if len(keys) == 1 else None
        if name is None:
            raise Unauthorized(REFUSED)
        return Caller("key", name, "manager")

    def _by_access_key(self, key: str | None) -> Caller:
        if key is None:
            raise Unauthorized(
                "This needs an access key: a Bearer in Authorization, x-api-key or x-goog-api-key",
                'It begins with "sk-agentd-"; whoever runs agentd makes one: agentd proxy key add.',
            )
        if self._access is None:
            raise Unauthorized(REFUSED)
        return self._access.admit(key)

    def _for_management(self, presented: Presented) -> Caller:
        """Let in the management key, or a login (the proxy specification, section 5).

        Both grant the same (5.6): the role of whoever is signed in is looked at by the route. A
        key that was sent decides, as everywhere, whatever login comes with it.
        """
        if not self._management:
            raise ManagementDisabled(MANAGEMENT_DISABLED)
        if presented.header is None and self._logins and presented.session:
            caller = self._logins.caller(presented.session)
            if caller is not None:
                return caller
        return self._by_management_key(presented.header)

    def _by_management_key(self, key: str | None) -> Caller:
        sent = (key or "").encode("utf-8", "surrogatepass")
        if not 0 < len(sent) <= LONGEST or not hmac.compare_digest(
            sha256(sent).digest(), self._management
        ):
            raise Unauthorized(
                "Invalid or missing management key",
                "Send the key itself in the header X-API-Key (PROXY_APP_HASH holds its SHA-256),"
                " or sign in as an administrator.",
            )
        return Caller("management", "", "administrator")

    def _by_login(self, session: str | None) -> Caller:
        caller = self._logins.caller(session) if self._logins and session else None
        if caller is None:
            raise Unauthorized(REFUSED)
        return caller
