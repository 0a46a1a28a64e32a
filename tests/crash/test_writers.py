"""Whoever syncs is found in the code, directly or through the storage, and nobody else."""

from tests.crash.endpoint_power_cut import UNSEEN
from tests.crash.writers import list_writers


def test_writers_are_found_that_sync_themselves_or_by_the_storage() -> None:
    found = list_writers()
    assert "workspace.uploads.store.UploadFolder._keep" in found, "it calls os.fsync"
    assert "auth.session_store.SessionFile.save" in found, "it has a document replaced"
    assert not {one for one in found if one.startswith("storage.")}
    assert "acp.connection.EditorConnection.notify" not in found
    assert 50 < len(found) < 200


def test_a_writer_that_is_left_out_of_the_check_exists() -> None:
    found = list_writers()
    outside = {one for one in UNSEEN if not one.startswith(("storage.", "app.state.State.save"))}
    unknown = {one for one in outside if one not in found}
    assert not unknown, unknown
