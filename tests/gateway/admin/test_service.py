"""Undo data that an earlier version wrote, with the names that fields had then."""

from functools import partial
from pathlib import Path

import msgspec
import pytest

from agentd.core.clock import SystemClock
from agentd.core.errors import Conflict
from agentd.gateway.admin.changes import ChangeRequest, UndoRecord
from agentd.gateway.admin.changes_store import ChangeJournal
from agentd.gateway.admin.service import ManagedResource, ManagedSettings
from agentd.gateway.models.store import GatewayModelRepository
from agentd.gateway.settings.model import GatewaySettings
from agentd.gateway.settings.store import GatewaySettingsRepository, watch_settings
from agentd.models.gateway_model import GatewayModel
from agentd.models.model import Models
from agentd.models.store import load
from agentd.storage.layout import Layout
from agentd.storage.watched_file import WatchedFile

CALLER = ChangeRequest("management", "192.0.2.1")
MODEL = b'{"name":"mini","ways":[{"channel":"%s"}]}'


def build_undo_record(resource: str, before: bytes, after: bytes) -> UndoRecord:
    return UndoRecord(resource=resource, before=msgspec.Raw(before), after=msgspec.Raw(after))


async def open_journal(layout: Layout) -> ChangeJournal:
    journal = ChangeJournal(layout, SystemClock())
    await journal.open(b"s" * 32)
    return journal


async def manage_models(layout: Layout, text: str) -> ManagedResource[GatewayModel]:
    path = Path(layout.models)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    models = GatewayModelRepository(
        layout, WatchedFile(layout.models, partial(load, layout), Models())
    )
    return ManagedResource(
        "models",
        GatewayModel,
        models,
        await open_journal(layout),
        name=lambda model: model.name,
        show=lambda model: {"name": model.name},
    )


@pytest.mark.gen_test
async def test_undo_of_a_models_change_reads_routes_stored_as_ways(layout: Layout) -> None:
    managed = await manage_models(layout, "proxy: [{name: mini, routes: [{channel: new}]}]\n")
    change = await managed.undo(
        build_undo_record("models", MODEL % b"old", MODEL % b"new"), CALLER, 1
    )
    assert (change.action, change.undoes) == ("undo", 1)
    [model] = load(layout).proxy
    assert [route.channel for route in model.routes] == ["old"]


@pytest.mark.gen_test
async def test_undo_of_a_deleted_model_reads_routes_stored_as_ways(layout: Layout) -> None:
    managed = await manage_models(layout, "proxy: []\n")
    await managed.undo(build_undo_record("models", MODEL % b"old", b"null"), CALLER, 1)
    [model] = load(layout).proxy
    assert [route.channel for route in model.routes] == ["old"]


@pytest.mark.gen_test
async def test_undo_with_old_names_still_refuses_a_model_that_changed_since(
    layout: Layout,
) -> None:
    managed = await manage_models(layout, "proxy: [{name: mini, routes: [{channel: later}]}]\n")
    with pytest.raises(Conflict):
        await managed.undo(build_undo_record("models", MODEL % b"old", MODEL % b"new"), CALLER, 1)
    [model] = load(layout).proxy
    assert [route.channel for route in model.routes] == ["later"]


@pytest.mark.gen_test
async def test_undo_of_settings_reads_their_earlier_names_and_values(layout: Layout) -> None:
    path = Path(layout.gateway_settings)
    path.parent.mkdir(parents=True)
    path.write_text("on_ledger_failure: continue\nmask_secrets: false\ntries: 2\n")
    settings = GatewaySettingsRepository(layout, watch_settings(layout, lambda: None))
    managed = ManagedSettings[GatewaySettings](
        "settings",
        settings,
        await open_journal(layout),
        show=lambda one: one,
        unmask=lambda new, _: new,
    )
    before = b'{"hiding":true,"when_unbooked":"stop"}'
    after = b'{"hiding":false,"when_unbooked":"continue"}'
    await managed.undo(build_undo_record("settings", before, after), CALLER, 1)
    found = await settings.read()
    assert (found.mask_secrets, found.on_ledger_failure, found.tries) == (True, "refuse", 2)
