"""The management of the model gateway does what its own OpenAPI document says."""

from collections.abc import Callable
from pathlib import Path

from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.gateway.catalogue.samples import write_catalogue
from tests.gateway.conftest import GatewaySetup
from tests.support.daemon import Serving
from tests.support.schemathesis_run import run_schemathesis


def test_the_management_does_what_its_document_says(
    setup: GatewaySetup, start_gateway: Callable[..., Serving], tmp_path: Path
) -> None:
    write_catalogue(setup.layout)
    daemon, header = start_gateway(environ={"PROXY_APP_HASH": HASH}), f"X-API-Key: {MANAGEMENT_KEY}"
    numbers = run_schemathesis(daemon, tmp_path, header, "^/api/agent", "/api/agent/openapi.json")
    assert 'status="201"' in numbers
