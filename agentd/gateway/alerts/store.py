"""``alerts.json``: the alerts of late, with what is still to be delivered, and what is firing."""

import logging
import os
from typing import Literal

import msgspec
from msgspec import Struct

from agentd.gateway.alerts.model import Alert
from agentd.gateway.alerts.states import FiringTopic
from agentd.storage import document
from agentd.storage.layout import Layout

log = logging.getLogger(__name__)

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
        """Return what was saved last; log a damaged file, and return nothing."""
        found = document.read_document(self._path, MAX_BYTES)
        if found is None:
            return AlertsJson()
        try:
            return msgspec.json.decode(found.data, type=AlertsJson)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            log.error("%s is damaged, alerts in it are not delivered: %s", self._path, error)
            return AlertsJson()

    def save(self, content: AlertsJson) -> None:
        """Keep this instead; durable when it returns. Raises ``Unavailable``."""
        document.make_folder(os.path.dirname(self._path))
        document.replace_document(self._path, msgspec.json.encode(content) + b"\n")
