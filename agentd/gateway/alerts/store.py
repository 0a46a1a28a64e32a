"""``alerts.json``: the alerts of late, with what is still to be delivered, and what is firing."""

import os
from typing import Literal

import msgspec
from msgspec import Struct

from agentd.core.errors import ConfigError, ConfigProblem
from agentd.gateway.alerts.model import Alert
from agentd.gateway.alerts.states import FiringTopic
from agentd.storage import document
from agentd.storage.checksummed_json import ChecksumMismatch, decode_checksummed, encode_checksummed
from agentd.storage.layout import Layout

MAX_BYTES = 64 * 1024 * 1024


class AlertsJson(Struct, frozen=True):
    """The content of ``alerts.json``."""

    format: Literal[1] = 1
    firing: tuple[FiringTopic, ...] = ()
    alerts: tuple[Alert, ...] = ()
    """The oldest first."""


class AlertFile:
    """The file. Both methods block."""

    def __init__(self, layout: Layout) -> None:
        self._path = layout.alerts

    def load(self) -> AlertsJson:
        """Return what was saved last. Raises ``ConfigError`` for a damaged file."""
        found = document.read_document(self._path, MAX_BYTES)
        if found is None:
            return AlertsJson()
        try:
            return msgspec.json.decode(decode_checksummed(found.data), type=AlertsJson)
        except (ChecksumMismatch, msgspec.DecodeError) as error:
            what = (
                f"is damaged ({error}): restore it, or delete it and the alerts in it are not sent"
            )
            raise ConfigError([ConfigProblem(self._path, 0, what)]) from error

    def save(self, content: AlertsJson) -> None:
        """Keep this instead; durable when it returns. Raises ``Unavailable``."""
        document.make_folder(os.path.dirname(self._path))
        document.replace_document(self._path, encode_checksummed(content))
