"""A gateway over a scripted supplier, and the vendors' own clients of it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import msgspec
import openai
import pytest

from agentd.disk.access_keys import AccessKeyFile
from agentd.disk.layout import Layout
from agentd.disk.licence import LicenceFile
from agentd.proxy.access_key import AccessKey, issue
from agentd.proxy.entry import Entry
from tests.supplier.conftest import supplier
from tests.supplier.supplier import Supplier
from tests.web.conftest import Serve
from tests.web.support import Serving, until

__all__ = ["supplier"]

SECRET = "sk-supplier-0123456789abcdef"
"""The supplier's key, which nobody else may see."""

PRICES = {"input": "3", "output": "15", "cache_read": "0.3", "cache_write": "3.75"}


class House:
    """A daemon with a gateway: channels to one supplier, models through each of them."""

    def __init__(self, folder: Path, supplier: Supplier) -> None:
        self.folder = folder
        self.supplier = supplier
        self.layout = Layout(str(folder / "state"), str(folder / "config"))
        self.channels: list[dict[str, Any]] = [
            self.channel("chat", "openai-chat"),
            self.channel("responses", "openai-responses"),
            self.channel("messages", "anthropic"),
            self.channel("gemini", "gemini"),
        ]
        self.models: list[dict[str, Any]] = [
            {
                "name": f"by-{channel['name']}",
                "ways": [{"channel": channel["name"], "model": "scripted-large"}],
                "prices": PRICES,
                "max_output": 1000,
            }
            for channel in self.channels
        ]
        self.settings: dict[str, Any] = {}
        self.licensed = True
        self.keys: list[str] = []
        """The ids of the access keys."""
        self.daemon: Serving | None = None

    def channel(self, name: str, *dialects: str, **more: Any) -> dict[str, Any]:
        """A channel to the supplier."""
        url = {"url": self.supplier.url, "key": SECRET, "local": True}
        return {"name": name, "dialects": list(dialects), **url, **more}

    def key(self, **fields: Any) -> str:
        """An access key; without a name, the one that all share."""
        name = fields.pop("name", f"key {len(self.keys)}")
        letters, kept = issue(name, "2026-01-01T00:00:00.000Z")
        self.keys.append(kept.id)
        told = {**msgspec.to_builtins(kept), **fields}
        AccessKeyFile(self.layout).add(msgspec.convert(told, AccessKey))
        return letters

    def write(self) -> None:
        """Write the files of the configuration."""
        config = Path(self.layout.config)
        config.mkdir(parents=True, exist_ok=True)
        self._write(Path(self.layout.channels), {"channels": self.channels})
        self._write(Path(self.layout.models), {"proxy": self.models})
        self._write(Path(self.layout.gateway_settings), self.settings)
        if self.licensed:
            LicenceFile(self.layout).install_own("2026-01-01T00:00:00.000Z")

    def entries(self, count: int) -> list[Entry]:
        """The lines of the ledger, once there are so many."""
        return until(lambda: found if len(found := self.booked()) >= count else None)

    def booked(self, words: str = "") -> list[Entry]:
        """The whole lines of the ledger with these words in them; the last may be half written."""
        found = []
        for path in sorted(Path(self.layout.state, "proxy", "requests").glob("[0-9]*.jsonl")):
            for line in path.read_bytes().splitlines(keepends=True):
                if words.encode() not in line or not line.endswith(b"\n"):
                    continue
                fields = json.loads(line)
                fields.pop("crc")
                found.append(msgspec.convert(fields, Entry, strict=False))
        return found

    @staticmethod
    def json(content: dict[str, Any]) -> str:
        """A file's content, as YAML understands it."""
        return json.dumps(content)

    def _write(self, path: Path, content: dict[str, Any]) -> None:
        path.write_text(self.json(content))
        path.chmod(0o600)


@pytest.fixture
def house(tmp_path: Path, supplier: Supplier) -> House:
    """A gateway that is not up yet."""
    return House(tmp_path, supplier)


@pytest.fixture
def up(house: House, serve: Serve) -> Callable[..., Serving]:
    """Bring it up."""

    def bring(**more: Any) -> Serving:
        if house.daemon is None:
            house.write()
            house.daemon = serve(house.folder, **more)
        return house.daemon

    return bring


@pytest.fixture
def openai_client(house: House, up: Callable[..., Serving]) -> Iterator[openai.OpenAI]:
    """OpenAI's client, which tries once."""
    key, daemon = house.key(), up()
    with openai.OpenAI(
        base_url=f"{daemon.url}/v1", api_key=key, max_retries=0, timeout=60
    ) as client:
        yield client


@pytest.fixture
def anthropic_client(house: House, up: Callable[..., Serving]) -> Iterator[anthropic.Anthropic]:
    """Anthropic's client, which tries once."""
    key, daemon = house.key(), up()
    with anthropic.Anthropic(base_url=daemon.url, api_key=key, max_retries=0, timeout=60) as client:
        yield client
