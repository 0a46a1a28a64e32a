"""TypeScript types that are generated from the OpenAPI document fit the running daemon."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.daemon import KEY, Serving

HERE = Path(__file__).parent / "generated"
MODULES = HERE / "node_modules"
STRICT = ["--strict", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom"]


def run_program(folder: Path, *command: str) -> str:
    """Run a program that must succeed, and return its output."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
@pytest.mark.skipif(not MODULES.is_dir(), reason=f"needs: npm install --prefix {HERE}")
def test_a_client_of_generated_types_compiles_and_works(shared: Serving, tmp_path: Path) -> None:
    """The compiler is strict: a field that is wrongly required or absent stops it."""
    (tmp_path / "openapi.json").write_bytes(shared.client().get("/api/openapi.json").body)
    (tmp_path / "node_modules").symlink_to(MODULES)
    for name in ("package.json", "client.ts"):
        shutil.copy(HERE / name, tmp_path)
    programs = MODULES / ".bin"
    run_program(tmp_path, str(programs / "openapi-typescript"), "openapi.json", "-o", "api.d.ts")
    run_program(tmp_path, str(programs / "tsc"), *STRICT, "client.ts")
    result = json.loads(run_program(tmp_path, "node", "client.js", shared.url, KEY))
    assert result.pop("at").endswith("Z")
    assert (result["models"], result["settings"], result["kind"]) == (True, True, "NotFound")
    assert (type(result["waiting"]), type(result["labels"])) == (int, int)
