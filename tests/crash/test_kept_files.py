"""Whatever befalls a file of the state folder is told, and what need not end does not."""

import asyncio
import contextlib
import os
import shutil
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from agentd.app import daemon, push
from agentd.cli.main import main
from agentd.core.errors import AgentdError
from agentd.storage.layout import Layout
from tests.crash import keeping, kept_files
from tests.crash.callers import Wire
from tests.crash.daemon_with_ledger import LedgerEngine

DAMAGES = ("cut", "cut after a line", "emptied", "zeroed", "a flipped bit", "a folder",
           "a link to nowhere", "an impossible time", "removed")  # fmt: skip

UNTOLD = {
    # A copy may hold as much: it is no damage. A key may say no more than that.
    "cut after a line": [
        *("chats/*/journal.jsonl", "proxy/access-keys.yml", "proxy/management-keys.yml"),
    ],
    # Another name, or number.
    "a flipped bit": [
        *("*revoked.json", "sessions.json", "proxy/seed", "keys.yml", "proxy/access-keys.yml"),
        *("push.json", "people/*", "proxy/management-keys.yml", "*-decisions.json"),
        *("last_used.json", "autofix.json", "builds/*", "deployments/*", "proxy/export.json"),
    ],
    # Of times that are only shown, the file's text is shown.
    "an impossible time": [
        *("*revoked.json", "keys.yml", "proxy/management-keys.yml", "push.json"),
        *("*-decisions.json", "last_used.json", "builds/*", "deployments/*"),
    ],
    # The daemon itself empties an old undo; empty, preferences and hidden secrets are valid.
    "emptied": ["proxy/undo/*", "people/*", "proxy/hidden.jsonl"],
    "removed": ["*"],  # it is as if it had never been
}
"""Damages that the file alone does not show; caches are listed apart."""
CACHES = (
    *("*/checkpoint.json", "events/*", "proxy/reports/*", "proxy/service.log", "*.lock"),
    *("proxy/prices.json", "sign-in-links/*", "*/output.log"),
)
"""Files that are rebuilt, or that hold nothing that is needed."""
REFUSED = ("FORMAT", "daemon.lock", "ids.json", "proxy/seed", "proxy/requests/*")
"""Without these, nobody could say what would be done wrong: the start is refused."""
REMEDIES = ("restore", "delete", "move it away", "rmdir", "put the file itself there")


@pytest.fixture(scope="module", autouse=True)
def _unreached() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(push, "create_push_client", push.create_push_client)
        keeping.call_no_push_services()
        yield


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    folder = tmp_path_factory.mktemp("kept")
    before = os.umask(0o077)
    try:
        layout = Layout(str(folder / "state"), str(folder / "config"))
        kept_files.fill(layout)
    finally:
        os.umask(before)
    return layout


def test_the_folder_has_a_file_of_every_family_that_matters(filled: Layout) -> None:
    there = kept_files.list_families(filled)
    for wanted in ("FORMAT", "ids.json", "runs.json", "index.json", "keys.yml", "revoked.json",
                   "sessions.json", "push.json", "people/ann.yml", "daemon.lock", "schedules.json",
                   "mcp-decisions.json", "mcp-decisions.lock", "hook-decisions.json",
                   "hook-decisions.lock", "last_used.json", "autofix.json", "sign-in-links/*",
                   "builds/b/result.json", "deployments/d/deployment.json", "proxy/export.json",
                   "proxy/hidden.jsonl", "proxy/prices.json",
                   "chats/1/journal.jsonl", "proxy/seed",
                   "proxy/changes.jsonl", "proxy/undo/1.enc", "proxy/access-keys.yml",
                   "proxy/management-keys.yml", "proxy/management-keys.revoked.json",
                   "proxy/alerts.json", "proxy/revoked.json", "proxy/requests/*",
                   "proxy/reports/*"):  # fmt: skip
        assert any(fnmatch(name, wanted) for name in there), wanted


@pytest.mark.parametrize("how", DAMAGES)
def test_damage_is_reported_by_log_or_check_and_ends_nothing_else(
    filled: Layout, tmp_path: Path, how: str,
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    unreported = {}
    for number, name in enumerate(kept_files.list_families(filled)):
        copy = tmp_path / str(number)
        shutil.copytree(Path(filled.state).parent, copy)
        layout = Layout(str(copy / "state"), str(copy / "config"))
        path = copy / "state" / name
        if not kept_files.damage(path, how):
            continue
        caplog.clear()
        main(["check", "--state", layout.state, "--config", layout.config])
        checked = capsys.readouterr().out
        refused = "".join(start_and_use(layout))
        result = f"{checked}\n{caplog.text}\n{refused}"
        silent = any(fnmatch(name, one) for one in (*CACHES, *UNTOLD.get(how, ())))
        if not silent and str(path) not in result:
            unreported[name] = result
        if refused:
            assert any(fnmatch(name, one) for one in REFUSED), refused
            assert str(path) in refused
            assert any(remedy in refused for remedy in REMEDIES), refused
        shutil.rmtree(copy)
    assert not unreported


def start_and_use(layout: Layout) -> Iterator[str]:
    """Yield the reasons why the daemon does not start; none if it starts and works."""

    async def run_daemon() -> None:
        settings = kept_files.build_settings(layout)
        engine = LedgerEngine(os.path.join(layout.config, "ledger"))
        async with daemon.start_daemon(settings, layout, {}, engine) as running:
            await asyncio.to_thread(look, running.url)

    def look(url: str) -> None:
        with contextlib.closing(Wire(url)) as wire:
            assert wire.send("GET", "/2/status")[0] == 200
            assert wire.send("POST", "", {"prompt": "hello"})[0] == 201

    try:
        asyncio.run(run_daemon())
    except AgentdError as error:
        yield f"{error.message} {error.details}"
