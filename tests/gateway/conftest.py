"""A gateway over a scripted supplier, and the vendors' own clients of it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from agentd.gateway.keys.file import AccessKeyFile
from agentd.gateway.keys.model import AccessKey, issue
from agentd.gateway.ledger.record import RequestRecord
from agentd.gateway.licence.store import LicenceFile
from agentd.storage.layout import Layout
from tests.supplier.conftest import supplier
from tests.supplier.supplier import Supplier
from tests.support.daemon import Serving, until
from tests.support.fixtures import Serve

if TYPE_CHECKING:  # they take seconds to import, which the tests of the rules need not wait for
    import anthropic
    import openai

__all__ = ["supplier"]

SECRET = "sk-supplier-0123456789abcdef"
"""The supplier's key, which nobody else may see."""

PRICES = {"input": "3", "output": "15", "cache_read": "0.3", "cache_write": "3.75"}


class GatewaySetup:
    """A gateway's files and daemon: channels to one supplier, a model through each of them."""

    def __init__(self, folder: Path, supplier: Supplier) -> None:
        self.folder = folder
        self.supplier = supplier
        self.layout = Layout(str(folder / "state"), str(folder / "config"))
        self.channels: list[dict[str, Any]] = [
            self.build_channel("chat", "openai-chat"),
            self.build_channel("responses", "openai-responses"),
            self.build_channel("messages", "anthropic"),
            self.build_channel("gemini", "gemini"),
        ]
        self.models: list[dict[str, Any]] = [
            {
                "name": f"by-{channel['name']}",
                "routes": [{"channel": channel["name"], "model": "scripted-large"}],
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

    def build_channel(self, name: str, *dialects: str, **more: Any) -> dict[str, Any]:
        """Build a channel to the supplier."""
        url = {"url": self.supplier.url, "key": SECRET, "local": True}
        return {"name": name, "dialects": list(dialects), **url, **more}

    def add_key(self, **fields: Any) -> str:
        """Add an access key with a name of its own, and return its secret."""
        name = fields.pop("name", f"key {len(self.keys)}")
        letters, kept = issue(name, "2026-01-01T00:00:00.000Z")
        self.keys.append(kept.id)
        result = {**msgspec.to_builtins(kept), **fields}
        AccessKeyFile(self.layout).add(msgspec.convert(result, AccessKey))
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

    def wait_for_records(self, count: int) -> list[RequestRecord]:
        """Wait until the ledger has so many records."""
        return until(lambda: found if len(found := self.read_records()) >= count else None)

    def read_records(self, words: str = "") -> list[RequestRecord]:
        """Read the complete lines of the ledger with these words in them."""
        found = []
        for path in sorted(Path(self.layout.state, "proxy", "requests").glob("[0-9]*.jsonl")):
            for line in path.read_bytes().splitlines(keepends=True):
                if words.encode() not in line or not line.endswith(b"\n"):
                    continue
                fields = json.loads(line)
                fields.pop("crc")
                found.append(msgspec.convert(fields, RequestRecord, strict=False))
        return found

    @staticmethod
    def encode_yaml(content: dict[str, Any]) -> str:
        """Encode a file's content as JSON, which YAML includes."""
        return json.dumps(content)

    def _write(self, path: Path, content: dict[str, Any]) -> None:
        path.write_text(self.encode_yaml(content))
        path.chmod(0o600)


@pytest.fixture
def setup(tmp_path: Path, supplier: Supplier) -> GatewaySetup:
    """A gateway that is not started yet."""
    return GatewaySetup(tmp_path, supplier)


@pytest.fixture
def start_gateway(setup: GatewaySetup, serve: Serve) -> Callable[..., Serving]:
    """A function that starts the gateway."""

    def start_once(**more: Any) -> Serving:
        if setup.daemon is None:
            setup.write()
            setup.daemon = serve(setup.folder, **more)
        return setup.daemon

    return start_once


@pytest.fixture
def openai_client(
    setup: GatewaySetup, start_gateway: Callable[..., Serving]
) -> Iterator["openai.OpenAI"]:
    """OpenAI's client, without retries."""
    import openai

    key, daemon = setup.add_key(), start_gateway()
    with openai.OpenAI(
        base_url=f"{daemon.url}/v1", api_key=key, max_retries=0, timeout=60
    ) as client:
        yield client


@pytest.fixture
def anthropic_client(
    setup: GatewaySetup, start_gateway: Callable[..., Serving]
) -> Iterator["anthropic.Anthropic"]:
    """Anthropic's client, without retries."""
    import anthropic

    key, daemon = setup.add_key(), start_gateway()
    with anthropic.Anthropic(base_url=daemon.url, api_key=key, max_retries=0, timeout=60) as client:
        yield client
