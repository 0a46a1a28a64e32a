"""A state folder with a file of every family, and ways in which files are damaged."""

import asyncio
import contextlib
import os
import re
from pathlib import Path

import msgspec

from agentd.agent.workspace_decisions import (
    WorkspaceDecision,
    open_hook_decisions,
    open_server_decisions,
)
from agentd.app import daemon
from agentd.auth import password, roles
from agentd.auth.key import issue_key
from agentd.auth.key_store import KeyFile
from agentd.auth.sign_in_links import SignInLinks
from agentd.auth.user_store import UserFile
from agentd.core.clock import SystemClock
from agentd.gateway.alerts.model import Alert, AlertDelivery
from agentd.gateway.alerts.states import FiringTopic
from agentd.gateway.alerts.store import AlertFile, AlertsJson
from agentd.gateway.catalogue.model import PriceCatalogue
from agentd.gateway.catalogue.store import save_catalogue
from agentd.gateway.export.ports import ExportProgress
from agentd.gateway.export.state_store import ExportStateFile
from agentd.gateway.secrets.hidden_store import HiddenSecretStore
from agentd.gateway.secrets.known_values import KnownSecret
from agentd.gateway.secrets.rule_file import load_seed
from agentd.settings.model import Settings
from agentd.storage.layout import Layout
from agentd.workspace.autofix.rules import AutofixStatus
from agentd.workspace.builds.build import BuildStatus
from agentd.workspace.deployments.deployment import DeploymentStatus
from agentd.workspace.job_store import AutofixFile, BuildFiles, DeploymentFiles
from tests.crash import keeping
from tests.crash.callers import Wire
from tests.crash.daemon_with_ledger import LedgerEngine
from tests.crash.keys import KEY_HASH, MANAGEMENT_HASH, MANAGEMENT_KEY

AT = "2026-01-01T00:00:00.000Z"
_WORD = "correct horse battery"
_TIME = re.compile(rb"2\d\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ")
_NEVER = b"2026-99-99T99:99:99.999Z"


def build_settings(layout: Layout) -> Settings:
    """Return the settings of a daemon over this folder."""
    return Settings(
        port=0,
        agent_api_key=KEY_HASH,
        proxy_app_hash=MANAGEMENT_HASH,
        drain_seconds=0,
        workspace=layout.config,
    )


def fill(layout: Layout) -> None:
    """Have a daemon write a file of every family; blocking."""
    os.makedirs(layout.config, mode=0o700)
    KeyFile(layout).add(issue_key("kept", AT)[1])
    KeyFile(layout).add(issue_key("gone", AT)[1])
    KeyFile(layout).revoke("gone", AT)
    hashed = password.hash_password(_WORD, password.HashCost(14, 8, 1))
    UserFile(layout).add(roles.User("ann", "administrator", hashed))
    fired = FiringTopic("channel_down", "one", since=AT, text="one failed")
    waits = AlertDelivery(target="nobody", not_before=AT)
    alert = Alert(id="alert_1", at=AT, kind="channel_down", text="one failed", deliveries=(waits,))
    AlertFile(layout).save(AlertsJson(firing=(fired,), alerts=(alert,)))
    open_server_decisions(layout).keep(WorkspaceDecision("lint", "ab" * 32, allowed=True, at=AT))
    open_hook_decisions(layout).keep(WorkspaceDecision("a", "ab" * 32, allowed=True, at=AT))
    Path(layout.builds_settings).write_text("builds:\n  b:\n    command: ['true']\n")

    async def run_daemon() -> None:
        engine = LedgerEngine(os.path.join(layout.config, "ledger"))
        async with daemon.start_daemon(build_settings(layout), layout, {}, engine) as running:
            await asyncio.to_thread(_use, running.url)

    asyncio.run(run_daemon())
    _store_rest(layout)


def _store_rest(layout: Layout) -> None:
    """Write what a short run of a daemon does not write."""
    KeyFile(layout).save_last_used({"ab" * 32: AT})
    SignInLinks(layout, SystemClock()).create("http://127.0.0.1:1")
    BuildFiles(layout).save(BuildStatus("b", "succeeded", started=AT, ended=AT), b"done")
    DeploymentFiles(layout).save(DeploymentStatus("d", started=AT, ended=AT))
    AutofixFile(layout).save(AutofixStatus())
    ExportStateFile(layout).save(ExportProgress("agentd.requests"))
    hidden = HiddenSecretStore(layout, load_seed(layout), SystemClock())
    hidden.append([KnownSecret("caller", "github", "ghp_0a1b2c3d4e5f")])
    catalogue = PriceCatalogue(source="a library", at=AT, suppliers=())
    save_catalogue(layout, msgspec.json.encode(catalogue))


def _use(url: str) -> None:
    with contextlib.closing(Wire(url)) as wire:
        for number in (1, 2):
            wire.send("POST", "", {"prompt": f"first of {number}"})
            wire.send("GET", f"/{number}/status?wait=10")
        wire.call("GET", "/api/analytics/summary")
        sign_in = {"user": "ann", "password": _WORD, "bearer": True}
        token = wire.call("POST", "/api/session", sign_in)[1]["token"]
        wire.call("PUT", "/api/me", {"seen": {"1": 2}}, {"Authorization": f"Bearer {token}"})
        keeping.subscribe(wire, token, "laptop")
        wire.call("POST", "/api/builds/b/start", {})
        schedule = {"name": "nightly", "cron": "0 3 * * *", "prompt": "test it"}
        wire.call("POST", "/api/schedules", schedule)
        wire.call("POST", "/api/schedules/nightly/run")
        manager = {"X-API-Key": MANAGEMENT_KEY}
        for name in ("one", "two", "three"):
            channel = {
                "name": name,
                "dialects": ["openai"],
                "url": "http://127.0.0.1:9/v1",
                "key": "x",
            }
            wire.call("POST", "/api/agent/channels", channel, manager)
        for name in ("monitor", "removed"):
            fields = {"name": name, "scope": "read"}
            wire.call("POST", "/api/agent/management-keys", fields, manager)
        wire.call("DELETE", "/api/agent/management-keys/removed", None, manager)
        made = wire.call("POST", "/api/agent/keys", {"name": "caller"}, manager)[1]
        wire.call("POST", "/api/agent/keys", {"name": "removed"}, manager)
        wire.call("DELETE", "/api/agent/keys/removed", None, manager)
        caller = {"Authorization": f"Bearer {made.get('secret') or made.get('key')}"}
        asked = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
        wire.call("POST", "/v1/chat/completions", asked, caller)


def list_families(layout: Layout) -> list[str]:
    """Return the path of each file, relative to the state folder; of similar ones only one."""
    files = sorted(path for path in Path(layout.state).rglob("*") if path.is_file())
    names = [str(path.relative_to(layout.state)) for path in files]
    alike = ("chats/2/", "proxy/undo/2")
    return [name for name in names if not name.startswith(alike)]


def damage(path: Path, how: str) -> bool:
    """Damage a file; False where it cannot be damaged so."""
    data = path.read_bytes()
    match how:
        case "cut":
            path.write_bytes(data[: len(data) * 2 // 3])
        case "cut after a line":
            path.write_bytes(data[: data.rfind(b"\n", 0, -1) + 1] or data)
        case "emptied":
            path.write_bytes(b"")
        case "zeroed":
            path.write_bytes(bytes(len(data)))
        case "a flipped bit":
            place = len(data) // 2
            path.write_bytes(
                data[:place] + bytes(b ^ 1 for b in data[place : place + 1]) + data[place + 1 :]
            )
        case "a folder":
            path.unlink()
            path.mkdir()
        case "a link to nowhere":
            path.unlink()
            path.symlink_to("nowhere")
        case "an impossible time":
            path.write_bytes(_TIME.sub(_NEVER, data))
        case "removed":
            path.unlink()
    return how in ("a folder", "a link to nowhere", "removed") or path.read_bytes() != data
