"""Alerts, the targets that receive them, and the thresholds from which on there is one."""

from collections.abc import Iterable
from typing import Annotated, Literal, NamedTuple, TypeAlias

from msgspec import Meta, Struct

from agentd.core.clock import Timestamp
from agentd.core.redaction import escape_unprintable, mask_values, scrub
from agentd.core.secret_text import SecretText

AlertKind: TypeAlias = Literal[
    "limit_near",
    "limit_hit",
    "channel_down",
    "channel_disabled",
    "balance_low",
    "secret_found",
    "export_failing",
    "ledger_failing",
    "error_rate",
]
"""``limit_near`` and ``secret_found`` are events; the others last until they are resolved."""

AlertState: TypeAlias = Literal["firing", "resolved"]
TargetKind: TypeAlias = Literal["webhook", "slack", "discord", "text", "telegram"]

TEST = "test"
"""The kind of the alert that only tests a target."""
EVENTS: frozenset[str] = frozenset({"limit_near", "secret_found", TEST})
"""Kinds of which there is no end to tell."""

MAX_TEXT = 1000
MAX_INTERVAL = 86400.0
MAX_CHAT = 2**52
"""The bound of Telegram's ids of conversations."""


class AlertTopic(NamedTuple):
    """What an alert is about: at most one is firing for each."""

    kind: str
    subject: str
    """The name or id of what it concerns; empty: the gateway."""


class AlertTarget(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A target that is notified of alerts, as ``alerts.yml`` has it."""

    name: Annotated[
        str,
        Meta(
            pattern="[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
            extra={"form": "1 to 64 of A-Za-z0-9._-, beginning with a letter or a digit"},
        ),
    ]
    """The name of the target."""
    kind: TargetKind = "webhook"
    """The format: ``webhook`` is signed JSON of Standard Webhooks; ``slack`` is for Slack and what
    takes its incoming webhooks, ``discord`` for Discord, ``text`` is plain text, as ntfy takes;
    ``telegram`` sends it by a bot of this daemon."""
    url: SecretText = ""
    """Where it is sent; in the file also `env:NAME` or `file:PATH`. Shown without its path."""
    secret: SecretText = ""
    """Of a webhook: signs it (`whsec_...`). Of text: sent as a bearer token. Shown masked."""
    bot: Annotated[str, Meta(max_length=32)] = ""
    """Of Telegram: id of the bot that sends it."""
    chat: Annotated[int, Meta(ge=-MAX_CHAT, le=MAX_CHAT)] | None = None
    """Of Telegram: id of the conversation; a person's is the user id, a group's is negative."""
    alerts: tuple[AlertKind, ...] = ()
    """The alerts that it receives; empty: all."""
    resolved: bool = True
    """True if it is also notified when an alert is over."""
    min_interval: Annotated[float, Meta(ge=0, le=MAX_INTERVAL)] = 60.0
    """The least seconds between two messages about the same thing; only the last is sent then."""
    enabled: bool = True
    """True if it is notified of anything."""
    local: bool = False
    """True if the address may be one of this machine or its network."""

    def wants(self, kind: str, state: AlertState) -> bool:
        """Return whether an alert of this kind and state is sent to it."""
        if not self.enabled or (self.alerts and kind not in self.alerts):
            return False
        return state == "firing" or self.resolved

    def __repr__(self) -> str:
        """Return a representation without the address and the secret."""
        return f"AlertTarget({self.name!r}, {self.kind!r})"


class AlertDelivery(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An alert on its way to one target."""

    target: str
    """Name of the target."""
    state: Literal["pending", "delivered", "failed", "skipped"] = "pending"
    """``failed``: given up; ``skipped``: a later message about the same replaced it."""
    attempts: int = 0
    """How often it was sent."""
    not_before: Timestamp = ""
    """When it is to be sent next."""
    at: Timestamp = ""
    """When it was last sent; empty: never."""
    answer: str = ""
    """What the target answered last, or why it could not be reached."""


class Alert(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that an administrator should know. It never contains a secret."""

    id: str
    """Stays the same however often it is sent."""
    at: Timestamp
    """When it was noticed."""
    kind: str
    """What it is."""
    state: AlertState = "firing"
    """``resolved``: it is over."""
    subject: str = ""
    """The name or id of what it concerns; empty: the gateway."""
    text: str
    """What happened, in English."""
    since: Timestamp = ""
    """Of a resolved one: when it began."""
    deliveries: tuple[AlertDelivery, ...] = ()
    """One for each target that receives it."""

    @property
    def topic(self) -> AlertTopic:
        """What it is about."""
        return AlertTopic(self.kind, self.subject)

    @property
    def is_pending(self) -> bool:
        """True if it is still to be delivered to somebody."""
        return any(one.state == "pending" for one in self.deliveries)


class AlertRules(Struct, frozen=True, kw_only=True):
    """The thresholds of alerts, in ``proxy.yml``."""

    near_limit: Annotated[int, Meta(ge=1, le=99)] = 80
    """Percent of a limit in USD from which on a key is near it."""
    error_rate: Annotated[int, Meta(ge=1, le=100)] | None = 25
    """Percent of requests that fail from which on there is an alert; null: never."""
    error_minutes: Annotated[int, Meta(ge=1, le=60)] = 5
    """The minutes in which requests are counted for it."""
    error_requests: Annotated[int, Meta(ge=1, le=1_000_000)] = 20
    """The least requests in that time: fewer say nothing."""


def clean_text(text: str) -> str:
    """Return text for an alert: on one line, without what looks like a secret."""
    return escape_unprintable(scrub(" ".join(text.split())))[:MAX_TEXT]


def hide_values(text: str, secrets: Iterable[str]) -> str:
    """Return text as ``clean_text``, also without these values."""
    return clean_text(mask_values(text, secrets))
