"""``/api/me``: what two tabs change merges, lasts, and is each person's own."""

import os
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.auth.password import hash_password
from agentd.auth.roles import User
from agentd.auth.user_store import UserFile
from agentd.storage.layout import Layout
from agentd.ui.preference_store import PreferenceFiles
from agentd.ui.preferences import MAX_PINS, MAX_SEEN, PreferenceChange, Preferences, merge
from tests.support.daemon import CHEAP, WORD, Client, Serving
from tests.support.fixtures import Serve

ME = "/api/me"
IDS = st.integers(1, 5)
CHANGES = st.builds(
    PreferenceChange,
    seen=st.dictionaries(IDS, IDS, max_size=3),
    unseen=st.lists(IDS, max_size=1).map(tuple),
    pin=st.lists(IDS, max_size=3).map(tuple),
    unpin=st.lists(IDS, max_size=1).map(tuple),
    look=st.dictionaries(st.sampled_from(["theme", "density"]), st.none() | st.just("x")),
)


@pytest.fixture
def files(tmp_path: Path) -> PreferenceFiles:
    return PreferenceFiles(Layout(str(tmp_path / "state"), str(tmp_path)))


def sign_in(daemon: Serving, name: str, role: str = "viewer") -> Client:
    """Return a client that is signed in under this name."""
    UserFile(daemon.layout).add(User(name, role, hash_password(WORD, CHEAP)))  # type: ignore[arg-type]
    signing = {"user": name, "password": WORD, "bearer": True}
    token = daemon.client(None).post("/api/session", signing)["token"]
    daemon._clients.append(Client(daemon.url, None, {"Authorization": f"Bearer {token}"}))
    return daemon._clients[-1]


def test_what_was_seen_only_advances_unless_it_is_taken_back() -> None:
    first = merge(Preferences(), PreferenceChange(seen={7: 120}))
    assert merge(first, PreferenceChange(seen={7: 90, 8: 1})).seen == {7: 120, 8: 1}
    assert merge(first, PreferenceChange(unseen=(7,))).seen == {}
    assert merge(first, PreferenceChange(unseen=(7,), seen={7: 90})).seen == {7: 90}


def test_pins_of_two_tabs_are_both_kept() -> None:
    one = merge(Preferences(), PreferenceChange(pin=(3,)))
    both = merge(one, PreferenceChange(pin=(5,)))
    assert both.pins == (3, 5)
    assert merge(both, PreferenceChange(pin=(3,))).pins == (5, 3), "pinned again: at the end"
    assert merge(both, PreferenceChange(unpin=(3, 9))).pins == (5,)


def test_the_look_changes_setting_by_setting() -> None:
    dark = merge(Preferences(), PreferenceChange(look={"theme": "dark"}))
    both = merge(dark, PreferenceChange(look={"density": "compact"}))
    assert both.look == {"theme": "dark", "density": "compact"}
    assert merge(both, PreferenceChange(look={"theme": None})).look == {"density": "compact"}


@given(CHANGES, CHANGES)
def test_a_change_that_is_repeated_changes_nothing(before: PreferenceChange, again) -> None:  # type: ignore[no-untyped-def]
    once = merge(merge(Preferences(), before), again)
    assert merge(once, again) == once


@given(st.lists(CHANGES, max_size=5))
def test_what_is_written_is_read_again(changes: list[PreferenceChange]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        layout = Layout(folder, folder)
        kept = Preferences()
        for change in changes:
            kept = PreferenceFiles(layout).change("ann", change)
        assert PreferenceFiles(layout).read("ann") == kept


def test_the_file_is_bounded(files: PreferenceFiles) -> None:
    many = {number: number + 5 for number in range(1, MAX_SEEN + 1)}
    files.change("ann", PreferenceChange(seen=many, pin=tuple(range(1, MAX_PINS + 1))))
    kept = files.change("ann", PreferenceChange(seen={50_000: 60_000}, pin=(50_000,)))
    assert (len(kept.seen), len(kept.pins)) == (MAX_SEEN, MAX_PINS)
    assert 50_000 in kept.seen
    assert 1 not in kept.seen
    assert files.read("ann") == kept


def test_a_change_by_another_hand_in_between_is_kept(files: PreferenceFiles) -> None:
    others = PreferenceFiles(files._layout)
    for number in range(1, 20):
        files.change("ann", PreferenceChange(pin=(number,)))
        others.change("ann", PreferenceChange(seen={number: number}))
    assert files.read("ann").pins == tuple(range(1, 20))
    assert len(files.read("ann").seen) == 19


def test_each_person_has_preferences_that_last(serve: Serve, tmp_path: Path) -> None:
    daemon = serve()
    vera, mia = sign_in(daemon, "vera"), sign_in(daemon, "mia@x.org", "manager")
    change = {"seen": {"7": 120}, "pin": [7], "look": {"theme": "dark: #\n'x'"}}
    told = vera.send("PUT", ME, change)
    assert told.status == 200, told.body
    assert told.json() == {
        "user": "vera", "role": "viewer", "seen": {"7": 120}, "pins": [7],
        "look": {"theme": "dark: #\n'x'"},
    }  # fmt: skip
    assert mia.get(ME)["pins"] == []
    assert mia.send("PUT", ME, {"pin": [1]}).status == 200
    path = Path(daemon.layout.get_preferences_path("vera"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert vera.get(ME).json() == told.json()
    assert sorted(os.listdir(path.parent)) == ["mia@x.org.yml", "vera.yml"]


def test_two_tabs_at_once_lose_nothing(serve: Serve) -> None:
    daemon = serve()
    vera = sign_in(daemon, "vera")

    def change(first: int) -> None:
        client = Client(daemon.url, None, vera.headers)
        for number in range(first, 40, 2):
            assert client.send("PUT", ME, {"pin": [number]}).status == 200
        client.close()

    tabs = [threading.Thread(target=change, args=(first,)) for first in (1, 2)]
    for tab in tabs:
        tab.start()
    for tab in tabs:
        tab.join()
    assert sorted(vera.get(ME)["pins"]) == list(range(1, 40))


@pytest.fixture(scope="module")
def vera(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Serving, Client]]:
    with Serving(tmp_path_factory.mktemp("vera")) as daemon:
        yield daemon, sign_in(daemon, "vera")


@pytest.mark.parametrize(
    "change",
    [
        {"seen": {"x": 1}},
        {"seen": {"1": 0}},
        {"seen": {"-1": 1}},
        {"pin": ["1"]},
        {"look": {"a b": "x"}},
        {"look": {"theme": "x" * 201}},
        {"look": {"theme": 1}},
        {"pin": list(range(1, MAX_PINS + 2))},
        [],
    ],
)
def test_what_is_no_change_changes_nothing(vera: tuple[Serving, Client], change: object) -> None:
    daemon, client = vera
    assert client.send("PUT", ME, change).status == 400
    assert not Path(daemon.layout.people).exists()


def test_a_key_has_no_preferences(shared: Serving) -> None:
    found = shared.client().get(ME)
    assert (found.status, found["role"], found["seen"], found["pins"]) == (200, "manager", {}, [])
    assert shared.client().send("PUT", ME, {"pin": [1]}).status == 403
    assert shared.client(None).get(ME).status == 401


def test_a_broken_file_is_told_and_left_alone(serve: Serve) -> None:
    daemon = serve()
    vera = sign_in(daemon, "vera")
    vera.send("PUT", ME, {"pin": [1]})
    path = Path(daemon.layout.get_preferences_path("vera"))
    path.write_text("pins: [1\n")
    for reply in (vera.get(ME), vera.send("PUT", ME, {"pin": [2]})):
        assert (reply.status, reply["error"]) == (409, "Conflict")
        assert "vera.yml" in reply["message"]
    assert path.read_text() == "pins: [1\n"
