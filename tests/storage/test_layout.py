"""The written specification of the state folder names every file, every record and every field."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from agentd.agent.engines.native.transcript_file import KeptMessage, KeptPart, KeptTurn
from agentd.app.state import DaemonInfo, FormatFile
from agentd.auth.key_store import KeysYml, LastUsedJson, NamedKey
from agentd.auth.revoked_keys import RevokedJson, RevokedKey
from agentd.auth.roles import LoginSession
from agentd.auth.session_store import SessionsJson
from agentd.chats.approval import Approval, ApprovalKind, ApprovalState, Hold, QueueWait
from agentd.chats.index import ChatIndex
from agentd.chats.model import Message, Prompt, Role
from agentd.chats.records import JournalEntry, Outcome, RecordBody
from agentd.chats.service import NewChat
from agentd.core.idempotency import IdempotencyKey
from agentd.core.ids import HighWaterMarks
from agentd.gateway.export.days import Chunk, DayProgress
from agentd.gateway.export.state_store import ExportFileContents
from agentd.gateway.keys.file import AccessKeysYml
from agentd.gateway.keys.limits import KeyLimits
from agentd.gateway.keys.model import AccessKey, SecretHash
from agentd.live.event_log import IndexLine
from agentd.storage.layout import Layout
from agentd.storage.settled_clock import ClockJson
from agentd.system.process_identity import Process
from agentd.workspace.autofix.rules import AutofixStatus, BuildFix
from agentd.workspace.builds.build import BuildState, BuildStatus
from agentd.workspace.builds.problems import Problem
from agentd.workspace.deployments.deployment import DeploymentState, DeploymentStatus
from agentd.workspace.job_store import AutofixJson, BuildJson, DeploymentJson
from tests.conftest import ME, TEST, running_services
from tests.support.paths import REPOSITORY

README = REPOSITORY / "state" / "README.md"
SPANS = set(re.findall(r"`([^`\n]+)`", README.read_text()))
WORDS = SPANS | {word for span in SPANS for word in re.findall(r"\w+", span)}
"""Every code span of the README, and the words in them."""


def list_field_names(kind: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}


def test_every_file_of_the_state_folder_is_named():
    layout = Layout("STATE", "CONFIG")
    paths = [getattr(layout, name) for name in dir(Layout) if not name.startswith("_")
             and isinstance(getattr(Layout, name), property)]  # fmt: skip
    for path in [path for path in paths if path.startswith("STATE/")]:
        name = path.removeprefix("STATE/")
        assert name in WORDS or any(word.startswith(f"{name}/") for word in WORDS), name
    for path in (
        layout.get_journal_path(1),
        layout.get_checkpoint_path(1),
        layout.get_native_transcript_path(1),
    ):
        assert path.removeprefix("STATE/").replace("/1/", "/<id>/") in WORDS
    jobs = (
        layout.get_build_result_path("x"),
        layout.get_build_output_path("x"),
        layout.get_deployment_path("x"),
    )
    for path in (*jobs, *layout.get_deployment_output_paths("x")):
        assert path.removeprefix("STATE/").replace("/x/", "/<name>/") in WORDS
    for path in layout.get_event_paths(1):
        assert path.removeprefix("STATE/").replace("/1.", "/<seq>.") in WORDS


@pytest.mark.parametrize("record", get_args(RecordBody))
def test_every_record_is_named_with_every_field(record):
    tag = record.__struct_config__.tag
    [row] = [line for line in README.read_text().splitlines() if line.startswith(f"| `{tag}` |")]
    assert list_field_names(record) <= set(re.findall(r"`(\w+)`", row.split("|")[2]))


@pytest.mark.parametrize(
    "kind",
    [
        JournalEntry, Prompt, Message, Hold, QueueWait, Approval, IdempotencyKey, FormatFile,
        DaemonInfo, HighWaterMarks, ChatIndex, IndexLine,
        NamedKey, KeysYml, RevokedJson, RevokedKey, LastUsedJson, BuildJson, BuildStatus,
        Problem, DeploymentJson, DeploymentStatus, Process, AutofixJson, AutofixStatus,
        BuildFix, LoginSession, SessionsJson, AccessKeysYml, AccessKey, KeyLimits, SecretHash,
        ExportFileContents, DayProgress, Chunk, ClockJson, KeptTurn, KeptMessage, KeptPart,
    ],
)  # fmt: skip
def test_every_field_is_named(kind):
    assert list_field_names(kind) <= WORDS


def test_every_role_and_outcome_is_named():
    assert {*get_args(Role), *get_args(Outcome)} <= WORDS
    assert {*get_args(ApprovalKind), *get_args(ApprovalState)} <= WORDS
    assert {*get_args(BuildState), *get_args(DeploymentState)} <= WORDS


@pytest.mark.gen_test
async def test_no_file_is_there_that_is_not_named(layout):
    async with running_services(layout) as services:
        number = (await services.chats.create(NewChat(prompt="x"), ME)).id
    for path in Path(layout.state).rglob("*"):
        name = str(path.relative_to(layout.state)).replace(f"chats/{number}", "chats/<id>")
        assert path.is_dir() or name in WORDS


@pytest.mark.skipif(not shutil.which("jq"), reason="jq is not installed")
@pytest.mark.gen_test
async def test_the_recipes_for_jq_work(layout):
    async with running_services(layout) as services:
        number = (await services.chats.create(NewChat(prompt="hello"), ME)).id
        await services.turns.start_turn(number, TEST)
    recipes = re.findall(r"^    (jq .*) state/(\S+)$", README.read_text(), re.MULTILINE)
    assert len(recipes) == 4
    for command, path in recipes:
        shell = f"{command} {Path(layout.state, path)}"
        assert subprocess.run(  # noqa: S602, ASYNC221
            shell, shell=True, check=True, capture_output=True
        ).stdout.strip()
