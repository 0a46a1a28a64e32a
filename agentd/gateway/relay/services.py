"""The services that the relay uses."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentd.core.clock import Clock, Timestamp
from agentd.gateway.channels.model import Channel
from agentd.gateway.channels.routing import Router
from agentd.gateway.keys.model import AccessKey
from agentd.gateway.limits.spend import OverLimit
from agentd.gateway.relay.accounting import ApplicableLimits, RequestLedger
from agentd.gateway.relay.service_log_writer import ServiceLogWriter
from agentd.gateway.relay.traced_accounting import RequestTracer
from agentd.gateway.secrets.known_values import KnownSecret
from agentd.gateway.secrets.masker import SecretMasker
from agentd.gateway.settings.model import GatewaySettings
from agentd.llm.endpoint import ChannelDialect
from agentd.llm.upstream.protocol import Upstream
from agentd.models.gateway_model import GatewayModel


class SupplierConnections(Protocol):
    """Connects to the suppliers of channels."""

    def reach(self, channel: Channel, key: str = "", /) -> Awaitable[tuple[Upstream, str]]:
        """Return the channel's HTTP client and the key of one of its ``key_fields``, or the first.

        Raises ``ConfigError`` and ``Unavailable``.
        """
        ...


class BodyRecorder(Protocol):
    """Stores the bodies of some keys' requests (``gateway.ledger.bodies``)."""

    def store(
        self,
        id_: str,
        at: Timestamp,
        request: bytes,
        response: bytes,
        clean: Callable[[bytes], bytes],
    ) -> None:
        """Store an exchange in the background, each body as ``clean`` returns it."""
        ...


class Tracing(Protocol):
    """Whether spans are sent (``gateway.tracing.service``)."""

    @property
    def sender(self) -> RequestTracer | None:
        """None: no spans are made."""
        ...


@dataclass(frozen=True, slots=True)
class RelayServices:
    """The services that the relay uses."""

    models: Callable[[], Mapping[str, GatewayModel]]
    channels: Callable[[], Mapping[str, Channel]]
    settings: Callable[[], GatewaySettings]
    masker: Callable[[], SecretMasker | None]
    """None: secrets are not masked."""
    remember_secrets: Callable[[Sequence[KnownSecret]], Awaitable[None]]
    """Keeps what was hidden for the first time over a restart; never raises."""
    mask_for_storage: Callable[[bytes, ChannelDialect, str], bytes]
    """A body of a key, as it may be kept; also where nothing is hidden from suppliers."""
    licence_problem: Callable[[], str]
    """Why nothing may flow, with what to do; empty if it may."""
    find_unread_file: Callable[[AccessKey], str]
    """What a request of a key depends on and no start could read yet; empty: nothing."""
    is_still_valid: Callable[[AccessKey], bool]
    """A check whether work begun with a key may continue."""
    limits: Callable[[AccessKey, str], ApplicableLimits]
    """The limits of a request of a key for a model."""
    count_models: Callable[[AccessKey], Awaitable[None]]
    """Returns once ``limits`` knows what a key with limits on models spent on these; may raise
    ``Unavailable``."""
    announce_limit: Callable[[OverLimit], None]
    """Publishes that a limit refused a request."""
    router: Router
    suppliers: SupplierConnections
    ledger: RequestLedger
    bodies: BodyRecorder
    service_log: ServiceLogWriter
    tracing: Tracing
    clock: Clock
