"""The modules are typed, in comments: the compiler of TypeScript finds nothing wrong with them."""

import subprocess
from pathlib import Path

import pytest

from tests.support.daemon import Serving
from tests.ui.api_types import COMMAND, TYPES, generate_types

HERE = Path(__file__).parent
COMPILER = HERE / "node_modules" / ".bin" / "tsc"


@pytest.mark.skipif(not COMPILER.exists(), reason=f"needs: npm install --prefix {HERE}")
@pytest.mark.parametrize("project", ["tsconfig.json", "tsconfig.worker.json"])
def test_the_compiler_finds_no_error(project: str) -> None:
    """Pages and their worker have different globals, hence two projects."""
    command = [COMPILER, "-p", HERE / project]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


def test_the_types_of_the_api_are_those_of_its_description(shared: Serving) -> None:
    document = shared.client().get("/api/openapi.json").json()
    assert TYPES.read_text() == generate_types(document), f"write it anew: {COMMAND}"
