"""``users.yml``: strict, private, and edited without harm to what a person wrote."""

from pathlib import Path

import pytest

from agentd.auth.password import make_decoy_hash
from agentd.auth.roles import User
from agentd.auth.user_store import UserFile
from agentd.core.errors import ConfigError, Conflict, NotFound
from agentd.storage.layout import Layout

HASH, OTHER = make_decoy_hash(None), make_decoy_hash(None).replace("$000", "$111")
ANN, BOB = User("ann", "manager", HASH), User("bob", "viewer", HASH)


@pytest.fixture
def file(tmp_path: Path) -> UserFile:
    return UserFile(Layout(str(tmp_path / "state"), str(tmp_path / "config")))


def write_file(file: UserFile, text: str) -> UserFile:
    path = Path(file.path)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)
    return file


def test_without_a_file_there_is_nobody(file):
    assert file.load() == ()


def test_people_are_added_changed_and_removed_and_the_file_stays_private(file):
    file.add(ANN)
    file.add(BOB)
    assert file.load() == (ANN, BOB)
    file.change("bob", role="administrator")
    file.change("ann", password=OTHER)
    assert file.load() == (User("ann", "manager", OTHER), User("bob", "administrator", HASH))
    file.remove("ann")
    assert [user.name for user in file.load()] == ["bob"]
    assert Path(file.path).stat().st_mode & 0o777 == 0o600


def test_the_name_of_one_time_codes_is_an_administrators(file):
    """Whoever else has it sees and ends the logins by code."""
    with pytest.raises(Conflict, match="must have the role administrator"):
        file.add(User("administrator", "viewer", HASH))
    file.add(User("administrator", "administrator", HASH))
    with pytest.raises(Conflict):
        file.change("administrator", role="manager")
    file.change("administrator", password=OTHER)
    assert file.load() == (User("administrator", "administrator", OTHER),)


def test_comments_and_order_stay(file):
    text = f"""\
# ours
format: 1
users:
  # the boss
  - role: administrator   # really
    name: ann
    password: "{HASH}"
  # a guest
  - {{name: bob, role: viewer, password: "{HASH}"}}
"""
    write_file(file, text).add(User("cara", "viewer", HASH))
    file.change("ann", password=OTHER)
    edited = Path(file.path).read_text()
    for kept in ("# ours", "# the boss", "# really", "# a guest"):
        assert kept in edited
    assert edited.index("role: administrator") < edited.index("name: ann")
    file.remove("bob")
    assert "# a guest" not in Path(file.path).read_text()
    assert [user.name for user in file.load()] == ["ann", "cara"]


@pytest.mark.parametrize(
    ("text", "line", "result"),
    [
        ("users:\n- name: ann\n  role: boss\n  password: x\n", 3, "or viewer"),
        ("users:\n- name: ann\n  role: viewer\n  password: secret123\n", 4, "hidden"),
        ("users:\n- {name: ann, role: viewer}\n", 2, '"password" is missing'),
        ("user: []\n", 1, 'did you mean "users"?'),
        ("users:\n- name: a b\n", 2, "name"),
        ("format: 3\n", 1, "expected 1"),
    ],
)
def test_mistakes_are_reported_with_their_line_and_no_secret(file, text, line, result):
    with pytest.raises(ConfigError) as caught:
        write_file(file, text).load()
    assert any(one.line == line and result in one.what for one in caught.value.problems)
    assert "secret123" not in caught.value.message


def test_two_of_one_name_are_a_mistake_however_it_is_written(file):
    entry = '- {{name: {}, role: viewer, password: "{}"}}\n'
    text = "users:\n" + entry.format("ann", HASH) + entry.format("Ann", HASH)
    with pytest.raises(ConfigError, match="two users have the name") as caught:
        write_file(file, text).load()
    assert [problem.line for problem in caught.value.problems] == [3]
    write_file(file, "users:\n" + entry.format("ann", HASH))
    with pytest.raises(Conflict):
        file.add(User("ANN", "viewer", HASH))


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o606])
def test_a_file_that_others_may_read_or_write_is_refused(file, mode):
    file.add(ANN)
    Path(file.path).chmod(mode)
    with pytest.raises(ConfigError, match="chmod"):
        file.load()


def test_a_client_that_does_not_exist_cannot_be_changed(file):
    file.add(ANN)
    for change in (
        lambda: file.remove("anna"), lambda: file.change("anna", role="viewer"),
        lambda: file.find("anna"),
    ):  # fmt: skip
        with pytest.raises(NotFound, match='did you mean "ann"'):
            change()
    assert file.find("ann") == ANN
