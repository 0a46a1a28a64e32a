"""The licence's files: whose word holds here, and that edits hold at once."""

import asyncio
import os
import stat
from pathlib import Path

import pytest

from agentd.core.clock import FrozenClock
from agentd.core.errors import BadRequest, ConfigError, Conflict, NotFound
from agentd.gateway.licence.licence import create_licence, generate_issuer, sign
from agentd.gateway.licence.store import SELF_DAYS, LicenceFile, LicenceService
from agentd.storage.layout import Layout
from tests.conftest import until

NOW = "2026-01-31T12:00:00.000Z"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "state"), str(tmp_path / "config"))


@pytest.fixture
def file(layout: Layout) -> LicenceFile:
    return LicenceFile(layout)


def get_mode(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def test_without_files_the_licence_is_missing_and_what_to_do_is_reported(file):
    status = file.read_status(NOW)
    assert status.state == "missing"
    assert "agentd licence self" in status.reason


def test_a_workstation_gives_itself_a_licence(file, layout):
    file.install_own(NOW)
    status = file.read_status(NOW)
    assert (status.state, status.licence.edition) == ("valid", "workstation")
    assert "@" in status.licence.holder
    assert get_mode(layout.licence_issuer_key) == 0o600
    assert not get_mode(layout.licence_issuers) & 0o022


def test_another_licence_of_its_own_is_by_the_same_issuer(file):
    file.install_own(NOW)
    issuers, private = file.read_issuers(), file.read_private_key()
    file.install_own("2027-01-31T12:00:00.000Z")
    assert (file.read_issuers(), file.read_private_key()) == (issuers, private)
    assert file.read_status("2036-06-01T00:00:00.000Z").state == "valid"


def test_there_is_one_issuer_of_its_own(file):
    with pytest.raises(NotFound):
        file.read_private_key()
    public = file.make_issuer()
    assert file.read_issuers() == (public,)
    with pytest.raises(Conflict):
        file.make_issuer()


def test_the_licence_of_a_trusted_issuer_is_installed_and_no_others(file, layout):
    private, public = generate_issuer()
    token = sign(create_licence("ann", "team", NOW, 1), private)
    with pytest.raises(BadRequest):
        file.install(token)
    assert not os.path.exists(layout.licence)
    file.make_issuer()
    with open(layout.licence_issuers, "a") as issuers:
        issuers.write(f"\n  {public}  # ann's\n")
    assert file.install(token).holder == "ann"
    assert file.read_status(NOW).state == "valid"


def test_a_private_key_that_others_may_read_is_not_used(file, layout):
    file.make_issuer()
    os.chmod(layout.licence_issuer_key, 0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        file.read_private_key()


def test_issuers_that_others_may_write_are_not_trusted(file, layout):
    file.install_own(NOW)
    Path(layout.licence_issuers).chmod(0o602)
    assert file.read_status(NOW).state == "invalid"
    assert "others" in file.read_status(NOW).reason


def test_what_is_no_issuer_is_reported_with_its_line(file, layout):
    file.make_issuer()
    with open(layout.licence_issuers, "a") as issuers:
        issuers.write("nonsense\n")
    with pytest.raises(ConfigError) as refused:
        file.read_issuers()
    assert refused.value.problems[0].line == 3


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\xff\xfe", b"a.b.c"])
def test_what_is_no_licence_is_invalid_with_the_reason(file, layout, content):
    file.install_own(NOW)
    Path(layout.licence).write_bytes(content)
    status = file.read_status(NOW)
    assert status.state == "invalid"
    assert status.reason


def test_edits_of_the_files_hold_at_once_and_time_does_too(file, layout):
    async def work() -> None:
        clock = FrozenClock(NOW)
        book = LicenceService(file, clock)
        await book.refresh()
        assert book.status.state == "missing"
        await asyncio.to_thread(file.install_own, NOW)
        await book.refresh()
        assert book.status.state == "valid"
        clock.move(SELF_DAYS * 86400)
        assert book.status.state == "expired"
        clock.move(-1)
        assert book.status.state == "valid"
        Path(layout.licence_issuers).write_text("")
        await book.refresh()
        assert book.status.state == "invalid"

    asyncio.run(work())


def test_a_licence_is_installed_while_we_run(file):
    async def work() -> None:
        file.make_issuer()
        book = LicenceService(file, FrozenClock(NOW))
        token = sign(create_licence("ann", "team", NOW, 1), file.read_private_key())
        assert (await book.install(f" {token}\n")).state == "valid"
        with pytest.raises(BadRequest):
            await book.install("nonsense")
        assert book.status.licence.holder == "ann"

    asyncio.run(work())


def test_only_the_licences_files_are_looked_at_when_the_folder_is_watched(file, monkeypatch):
    async def work() -> None:
        book, looked = LicenceService(file, FrozenClock(NOW)), []
        file.install_own(NOW)

        def stamps() -> object:
            looked.append(book)
            return LicenceFile.read_stamps(file)

        monkeypatch.setattr(file, "read_stamps", stamps)
        book.on_file_changed("agentd.yml")
        await asyncio.sleep(0)
        assert not looked
        book.on_file_changed("licence.key")
        await until(lambda: book.status.state == "valid")
        book.on_file_changed("licence-issuer.pub")
        await until(lambda: len(looked) == 2)
        await book.stop()

    asyncio.run(work())
