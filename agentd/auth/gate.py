"""Authenticates requests: the only place that decides who may call.

Specification, section 5. An API key that was sent decides, even if a login comes with it; then a
login; otherwise the caller is anonymous. Nothing here waits or reads files.
"""

import hmac
from hashlib import sha256
from typing import Protocol

from agentd.auth.key import MAX_KEY_BYTES
from agentd.core.errors import Disabled, ManagementDisabled, Unauthorized
from agentd.http.access import ANONYMOUS, Caller, Credentials, RouteGroup

INVALID_KEY = "Invalid or missing API key"
"""The message that the specification fixes (section 5, rule 8)."""

REMOTE_DISABLED = (
    "The remote API is disabled: the environment variable AGENT_API_KEY is not set"
    " and keys.yml defines no keys"
)
"""The specification requires that the message names both sources (section 5, rule 8)."""

MANAGEMENT_DISABLED = (
    "The management of the model gateway is disabled:"
    " the environment variable PROXY_APP_HASH is not set, and there are no named management keys"
)
"""The proxy specification, section 5.3."""


class ApiKeyMatcher(Protocol):
    """The valid API keys."""

    @property
    def is_configured(self) -> bool:
        """True if there is any source of API keys."""
        ...

    def match(self, presented: str) -> str | None:
        """Return the name of a valid API key, or ``None``."""
        ...

    def may_answer(self, name: str) -> bool:
        """Return whether the API key of this name has the scope ``answers``."""
        ...


class SessionLookup(Protocol):
    """The sessions of users who are signed in."""

    def get_caller(self, session: str) -> Caller | None:
        """Return the user of a session token, or ``None`` if it is not valid."""
        ...


class AccessKeyVerifier(Protocol):
    """The valid access keys of the model gateway."""

    def authenticate(self, presented: str, address: str) -> Caller:
        """Return the caller with this access key, at an address.

        Raises ``Unauthorized`` or ``Forbidden`` with the reason.
        """
        ...


class ManagementKeyMatcher(Protocol):
    """The named management keys of the model gateway."""

    @property
    def is_configured(self) -> bool:
        """True if their file has any, even if it is damaged."""
        ...

    def match(self, presented: str) -> Caller | None:
        """Return the caller with this key, or ``None``."""
        ...


class Gate:
    """Returns the ``Caller`` of a request, or raises ``Unauthorized`` or ``Disabled``.

    Without ``logins`` nobody can sign in, without ``access`` no model can be called.
    ``management`` is the SHA-256 of the management key, or empty; ``named`` are further ones.
    """

    def __init__(
        self,
        keys: ApiKeyMatcher,
        logins: SessionLookup | None = None,
        access: AccessKeyVerifier | None = None,
        management: str = "",
        named: ManagementKeyMatcher | None = None,
    ) -> None:
        self._named_management = named
        self._management = bytes.fromhex(management)
        self._keys = keys
        self._logins = logins
        self._access = access

    def authenticate(self, group: RouteGroup, credentials: Credentials) -> Caller:
        """Return the caller; ``KeyService.ensure_current`` must have been awaited before."""
        if group is RouteGroup.PUBLIC:
            return ANONYMOUS
        if group is RouteGroup.MODELS:
            return self._authenticate_access_key(credentials.access, credentials.address)
        if group is RouteGroup.MANAGE:
            return self._authenticate_management(credentials)
        sent = [credentials.header]
        if group is RouteGroup.LIVE:
            sent.append(credentials.query)
        keys = {key for key in sent if key is not None}
        if self._keys.is_configured:
            if keys or group is RouteGroup.REMOTE:
                return self._authenticate_key(keys)
        elif group is RouteGroup.REMOTE:
            raise Disabled(REMOTE_DISABLED)
        return (
            ANONYMOUS
            if group is RouteGroup.OPEN
            else self._authenticate_session(credentials.session)
        )

    def _authenticate_key(self, keys: set[str]) -> Caller:
        """Authenticate by API key; sent twice (header and query), both must be the same."""
        name = self._keys.match(keys.pop()) if len(keys) == 1 else None
        if name is None:
            raise Unauthorized(INVALID_KEY)
        return Caller("key", name, "manager", may_answer=self._keys.may_answer(name))

    def _authenticate_access_key(self, key: str | None, address: str) -> Caller:
        if key is None:
            raise Unauthorized(
                "This needs an access key: a Bearer in Authorization, x-api-key or x-goog-api-key",
                'Access keys begin with "sk-agentd-"; create one with: agentd proxy key add.',
            )
        if self._access is None:
            raise Unauthorized(INVALID_KEY)
        return self._access.authenticate(key, address)

    def _authenticate_management(self, credentials: Credentials) -> Caller:
        """Authenticate by management key or login (the proxy specification, section 5).

        Both grant the same (5.6); the user's role and the scope of a named key are checked with
        the route. A key that was sent decides, as everywhere, even if a login comes with it.
        Without any management key only logins are accepted (5.3).
        """
        if credentials.header is None and self._logins and credentials.session:
            caller = self._logins.get_caller(credentials.session)
            if caller is not None:
                return caller
        named = self._named_management
        if not (self._management or (named and named.is_configured)):
            raise ManagementDisabled(MANAGEMENT_DISABLED)
        return self._authenticate_management_key(credentials.header or "")

    def _authenticate_management_key(self, key: str) -> Caller:
        sent = key.encode("utf-8", "surrogatepass")
        if 0 < len(sent) <= MAX_KEY_BYTES:
            if hmac.compare_digest(sha256(sent).digest(), self._management):
                return Caller("management", "", "administrator")
            if self._named_management and (caller := self._named_management.match(key)):
                return caller
        raise Unauthorized(
            "Invalid or missing management key",
            "Send the key itself in the header X-API-Key (PROXY_APP_HASH holds the SHA-256 of one,"
            " management-keys.yml those of others), or sign in as an administrator.",
        )

    def _authenticate_session(self, session: str | None) -> Caller:
        caller = self._logins.get_caller(session) if self._logins and session else None
        if caller is None:
            raise Unauthorized(INVALID_KEY)
        return caller
