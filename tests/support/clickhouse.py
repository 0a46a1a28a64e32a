"""A real ClickHouse on loopback, with all that it has in a folder of the test."""

import http.client
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from agentd.gateway.settings.model import ExportSettings
from tests.support.ports import find_free_port

USER, PASSWORD = "agentd", "p4ssword-of-clickhouse"

CONFIG = """\
<yandex>
  <logger><level>warning</level><console>1</console></logger>
  <listen_host>127.0.0.1</listen_host>
  <http_port>{http}</http_port>
  <tcp_port>{tcp}</tcp_port>
  <keep_alive_timeout>3</keep_alive_timeout>
  <uncompressed_cache_size>8388608</uncompressed_cache_size>
  <mark_cache_size>8388608</mark_cache_size>
  <path>{folder}/data/</path>
  <tmp_path>{folder}/tmp/</tmp_path>
  <users_config>users.xml</users_config>
  <default_profile>default</default_profile>
  <default_database>default</default_database>
  <timezone>UTC</timezone>
</yandex>
"""
USERS = f"""\
<yandex>
  <profiles><default/></profiles>
  <quotas><default/></quotas>
  <users>
    <{USER}>
      <password>{PASSWORD}</password>
      <networks><ip>127.0.0.1</ip></networks>
      <profile>default</profile>
      <quota>default</quota>
    </{USER}>
  </users>
</yandex>
"""


class Server:
    """The server; it can be killed, and started again over the same data."""

    def __init__(self, folder: Path) -> None:
        self.program = shutil.which("clickhouse-server") or ""
        self._folder = folder
        self._child: subprocess.Popen[bytes] | None = None
        folder.mkdir(exist_ok=True)
        self._choose_ports()
        (folder / "users.xml").write_text(USERS)

    def _choose_ports(self) -> None:
        self.port = find_free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        config = CONFIG.format(http=self.port, tcp=find_free_port(), folder=self._folder)
        (self._folder / "config.xml").write_text(config)

    def start(self) -> None:
        """Return once it answers."""
        child = self._spawn()
        end = time.monotonic() + 100
        while True:
            with suppress(OSError):
                assert self._answer("GET", "/ping", "") == "Ok.\n"
                return
            if child.poll() is not None:  # something else took a port since it was found free
                self._choose_ports()
                child = self._spawn()
            if time.monotonic() > end:
                self.kill()
                pytest.fail((self._folder / "log").read_text())
            time.sleep(0.05)

    def _spawn(self) -> subprocess.Popen[bytes]:
        with (self._folder / "log").open("ab") as log:
            self._child = subprocess.Popen(
                [self.program, f"--config-file={self._folder}/config.xml"],
                cwd=self._folder,
                stdout=log,
                stderr=log,
            )
        return self._child

    def kill(self) -> None:
        """Kill it, as a power cut does."""
        if self._child:
            self._child.kill()
            self._child.wait()
            self._child = None

    def ask(self, statement: str) -> str:
        """Execute a statement and return the response."""
        return self._answer("POST", f"/?{urlencode({'wait_end_of_query': 1})}", statement)

    def rows(self, where: str = "1", table: str = "agentd_requests") -> list[dict[str, Any]]:
        """Rows of the table, in the order of days and ids."""
        which = f"{table} WHERE {where} ORDER BY day, request_id FORMAT JSONEachRow"
        result = self.ask(f"SELECT * FROM {which}")  # noqa: S608 - of the test's own
        return [json.loads(line) for line in result.splitlines()]

    def _answer(self, method: str, path: str, body: str) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=100)
        try:
            headers = {"X-ClickHouse-User": USER, "X-ClickHouse-Key": PASSWORD}
            connection.request(method, path, body.encode(), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
            assert answer.status == 200, text
            return text
        finally:
            connection.close()

    def settings(self, **more: Any) -> ExportSettings:
        """Return the export's settings for this server."""
        return ExportSettings(url=self.url, user=USER, password=PASSWORD, **more)


@contextmanager
def running_clickhouse(folder: Path) -> Iterator[Server]:
    """A server; the test is skipped if ClickHouse is not installed."""
    server = Server(folder)
    if not server.program:
        pytest.skip("no clickhouse-server on this machine")
    server.start()
    try:
        yield server
    finally:
        server.kill()
