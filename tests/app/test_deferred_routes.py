"""Routes that are built at their first request: their modules are not imported by the loop."""

import hashlib
import os
import subprocess
import sys
from contextlib import closing
from http.client import HTTPConnection

import pytest

from agentd.storage.layout import Layout
from tests.support.paths import REPOSITORY

KEY = "k" * 32
HASH = hashlib.sha256(KEY.encode()).hexdigest()

PROGRAM = """
import sys, threading
from importlib.abc import MetaPathFinder
from agentd.cli.main import main

class Recorder(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.startswith("agentd.") and threading.current_thread() is threading.main_thread():
            print("imported by the loop:", name, file=sys.stderr, flush=True)

sys.meta_path.insert(0, Recorder())
main([*sys.argv[1:], "serve", "--port", "0"])
"""


@pytest.mark.parametrize(
    "path", ["/api/agent", "/api/agent?verbose=1", "/api/agent/none", "/mcp", "/api/openapi.json"]
)
def test_a_first_request_imports_nothing_on_the_loop(layout: Layout, path: str) -> None:
    places = ["--state", layout.state, "--config", layout.config]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *places],
        stderr=subprocess.PIPE, text=True, cwd=os.path.dirname(layout.state),
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PROXY_APP_HASH": HASH},
    ) as child:  # fmt: skip
        assert child.stderr
        try:
            port = int(next(one for one in child.stderr if " serving " in one).split(":")[-1])
            for one in (path, "/v1/none", "/healthz"):
                ask(port, one)
        finally:
            child.terminate()
        said = child.stderr.read()
    imported = [line for line in said.splitlines() if line.startswith("imported by the loop")]
    assert not imported


def ask(port: int, path: str) -> None:
    """Send a request, whatever is answered."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", path, headers={"X-API-Key": KEY})
        connection.getresponse().read()
