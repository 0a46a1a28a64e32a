"""What `.ci/run` does for each argument, in a project whose README's first command ends at once."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.paths import REPOSITORY

README = "# A project\n\n```sh\necho 'installing the project'; exit 7\n```\n"


def run_ci(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a copy of `.ci/run` in a folder with nothing but README above."""
    (project / ".ci").mkdir()
    (project / "README.md").write_text(README)
    script = shutil.copy(REPOSITORY / ".ci" / "run", project / ".ci")
    return subprocess.run([script, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", [(), ("all",)], ids=["no argument", "all"])
def test_everything_begins_with_the_first_command_of_the_readme(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    result = run_ci(tmp_path, *arguments)

    assert (result.returncode, result.stdout, result.stderr) == (7, "installing the project\n", "")


def test_an_unknown_argument_prints_the_usage_and_runs_nothing(tmp_path: Path) -> None:
    result = run_ci(tmp_path, "everything")

    assert (result.returncode, result.stdout) == (2, "")
    assert "Usage: .ci/run [lint | types | fast | oldest | all]" in result.stderr
    assert "all     everything" in result.stderr
