"""The written specification of the state folder names every file, every record and every field."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from agentd.access.login import Session
from agentd.chats.approval import Approval, Hold, Kind, Wait
from agentd.chats.approval import State as ApprovalState
from agentd.chats.chat import Message, Prompt, Role
from agentd.chats.records import Body, Entry, Once, Outcome
from agentd.chats.service import NewChat
from agentd.disk.access_keys import AccessKeysYml
from agentd.disk.event_log import Batch
from agentd.disk.export_state import ExportJson
from agentd.disk.graves import Grave, RevokedJson
from agentd.disk.index import Index
from agentd.disk.jobs import AutofixJson, BuildJson, DeploymentJson
from agentd.disk.keys import KeysYml, LastUsedJson, NamedKey
from agentd.disk.layout import Layout
from agentd.disk.sessions import SessionsJson
from agentd.disk.state import Daemon, Format
from agentd.ids import Marks
from agentd.proxy.access_key import AccessKey, Limits, Secret
from agentd.proxy.export.days import Chunk, Day
from agentd.workspace.build import BuildState, BuildStatus
from agentd.workspace.deployment import DeploymentState, DeploymentStatus, Process
from agentd.workspace.fixing import AutofixStatus, BuildFix
from agentd.workspace.problems import Problem
from tests.conftest import ME, TEST, living

README = Path(__file__).parents[2] / "state" / "README.md"
SPANS = set(re.findall(r"`([^`\n]+)`", README.read_text()))
WORDS = SPANS | {word for span in SPANS for word in re.findall(r"\w+", span)}
"""All that is set in code, and the words of it."""


def names_of(kind: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}


def test_every_file_of_the_state_folder_is_named():
    layout = Layout("STATE", "CONFIG")
    paths = [getattr(layout, name) for name in dir(Layout) if not name.startswith("_")
             and isinstance(getattr(Layout, name), property)]  # fmt: skip
    for path in [path for path in paths if path.startswith("STATE/")]:
        name = path.removeprefix("STATE/")
        assert name in WORDS or any(word.startswith(f"{name}/") for word in WORDS), name
    for path in (layout.journal(1), layout.checkpoint(1)):
        assert path.removeprefix("STATE/").replace("/1/", "/<id>/") in WORDS
    jobs = (layout.build_result("x"), layout.build_output("x"), layout.deployment_file("x"))
    for path in (*jobs, *layout.deployment_outputs("x")):
        assert path.removeprefix("STATE/").replace("/x/", "/<name>/") in WORDS
    for path in layout.event_files(1):
        assert path.removeprefix("STATE/").replace("/1.", "/<seq>.") in WORDS


@pytest.mark.parametrize("record", get_args(Body))
def test_every_record_is_named_with_every_field(record):
    tag = record.__struct_config__.tag
    [row] = [line for line in README.read_text().splitlines() if line.startswith(f"| `{tag}` |")]
    assert names_of(record) <= set(re.findall(r"`(\w+)`", row.split("|")[2]))


@pytest.mark.parametrize(
    "kind",
    [
        Entry, Prompt, Message, Hold, Wait, Approval, Once, Format, Daemon, Marks, Index, Batch,
        NamedKey, KeysYml, RevokedJson, Grave, LastUsedJson, BuildJson, BuildStatus,
        Problem, DeploymentJson, DeploymentStatus, Process, AutofixJson, AutofixStatus,
        BuildFix, Session, SessionsJson, AccessKeysYml, AccessKey, Limits, Secret,
        ExportJson, Day, Chunk,
    ],
)  # fmt: skip
def test_every_field_is_named(kind):
    assert names_of(kind) <= WORDS


def test_every_role_and_outcome_is_named():
    assert {*get_args(Role), *get_args(Outcome)} <= WORDS
    assert {*get_args(Kind), *get_args(ApprovalState)} <= WORDS
    assert {*get_args(BuildState), *get_args(DeploymentState)} <= WORDS


@pytest.mark.gen_test
async def test_no_file_is_there_that_is_not_named(layout):
    async with living(layout) as life:
        number = (await life.chats.create(NewChat(prompt="x"), ME)).id
    for path in Path(layout.state).rglob("*"):
        name = str(path.relative_to(layout.state)).replace(f"chats/{number}", "chats/<id>")
        assert path.is_dir() or name in WORDS


@pytest.mark.skipif(not shutil.which("jq"), reason="jq is not installed")
@pytest.mark.gen_test
async def test_the_recipes_for_jq_work(layout):
    async with living(layout) as life:
        number = (await life.chats.create(NewChat(prompt="hello"), ME)).id
        await life.turns.start(number, TEST)
    recipes = re.findall(r"^    (jq .*) state/(\S+)$", README.read_text(), re.MULTILINE)
    assert len(recipes) == 4
    for command, path in recipes:
        shell = f"{command} {Path(layout.state, path)}"
        assert subprocess.run(  # noqa: S602, ASYNC221
            shell, shell=True, check=True, capture_output=True
        ).stdout.strip()
