"""The configuration and the access keys of a large model gateway, without its history."""

import hashlib
import os
from datetime import UTC, datetime
from decimal import Decimal
from os.path import dirname

from msgspec import structs

from agentd.core.clock import format_iso
from agentd.gateway.keys.file import AccessKeyFile
from agentd.gateway.keys.limits import KeyLimits
from agentd.gateway.keys.model import AccessKey, SecretHash, issue
from agentd.gateway.licence.store import LicenceFile
from agentd.storage.document import make_folder
from agentd.storage.layout import Layout

LONG_AGO = "2020-01-01T00:00:00.000Z"


class LargeGateway:
    """A folder with so many models, channels and access keys; every tenth is disabled."""

    def __init__(self, layout: Layout, models: int, channels: int, keys: int) -> None:
        self.layout = layout
        for path in (layout.ledger, layout.ledger_reports, layout.config):
            make_folder(path)
        self.models = [f"vendor/model-{number:04d}" for number in range(models)]
        self.channels = [f"channel-{number:03d}" for number in range(channels)]
        self.keys = _write_keys(layout, keys)
        _write(layout.channels, "channels:\n" + "".join(map(_format_channel, range(channels))))
        _write(
            layout.models,
            "proxy:\n" + "".join(_format_model(one, channels) for one in range(models)),
        )
        LicenceFile(layout).install_own(format_iso(datetime.now(UTC)))


def _write_keys(layout: Layout, count: int) -> list[AccessKey]:
    """Write the file of keys as the daemon does: one is issued, the others look like it."""
    _, first = issue("key 0", LONG_AGO)
    limits = KeyLimits(day=Decimal(50), month=Decimal(500), parallel=20)
    first = structs.replace(first, limits=limits)
    AccessKeyFile(layout).add(first)
    with open(layout.access_keys) as file:
        head, dash, entry = file.read().partition("- id:")
    keys, entries = [], []
    for number in range(count):
        key = _copy_key(first, number)
        keys.append(key)
        entries.append(_rename_entry(entry, first, key))
    _write(layout.access_keys, head + "".join(f"{dash}{one}" for one in entries))
    return keys


def _copy_key(first: AccessKey, number: int) -> AccessKey:
    digest = hashlib.sha256(b"%d" % number).hexdigest()
    return structs.replace(
        first,
        id=f"{number:012d}",
        name=f"key {number}",
        secret=SecretHash(digest[:32], digest, digest[:4]),
    )


def _rename_entry(entry: str, one: AccessKey, other: AccessKey) -> str:
    for before, after in (
        (one.secret.sha256, other.secret.sha256),
        (one.secret.salt, other.secret.salt),
        (f"'{one.secret.last4}'", f"'{other.secret.last4}'"),
        (one.id, other.id),
        (one.name, other.name),
    ):
        entry = entry.replace(before, after)
    return entry


def _format_channel(number: int) -> str:
    return (
        f"  - name: channel-{number:03d}\n"
        "    dialects: [openai-chat]\n"
        "    url: https://api.example\n"
        "    key: k-0123456789\n"
        f"    enabled: {_format_enabled(number)}\n"
    )


def _format_model(number: int, channels: int) -> str:
    return (
        f"  - name: vendor/model-{number:04d}\n"
        f"    enabled: {_format_enabled(number)}\n"
        "    prices: {input: 3, output: 15}\n"
        "    routes:\n"
        f"      - {{channel: channel-{number % channels:03d}, model: large}}\n"
    )


def _format_enabled(number: int) -> str:
    return "false" if number % 10 == 9 else "true"


def _write(path: str, text: str) -> None:
    make_folder(dirname(path))
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, 0o600)
