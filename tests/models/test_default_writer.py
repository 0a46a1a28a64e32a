"""Adding a model to ``models.yml`` as the default."""

import stat
from pathlib import Path

import pytest

from agentd.core.errors import Conflict
from agentd.models.default_writer import add_default, write_default
from agentd.models.model import Model, Models, Supplier
from agentd.models.store import load
from agentd.storage.layout import Layout

CLAUDE = Model(name="claude", engine="claude-code")
SONNET = Model(name="sonnet", engine="native", model="sonnet")
ANTHROPIC = Supplier("anthropic", "https://api.anthropic.com", "sk-one")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "state"), str(tmp_path / "config"))


def test_a_file_is_made_where_there_was_none(layout: Layout) -> None:
    write_default(layout, CLAUDE, None)
    assert load(layout) == Models(default="claude", models=(CLAUDE,))


def test_a_file_that_gets_a_key_is_readable_by_nobody_else(layout: Layout) -> None:
    path = Path(layout.models)
    path.parent.mkdir()
    path.write_text("# mine\nmodels:\n- {name: own, engine: offline}\n")
    path.chmod(0o644)
    written = write_default(layout, SONNET, ANTHROPIC)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().startswith("# mine\n")
    assert load(layout) == written
    assert written.default == "sonnet"
    assert written.names == ("own", "sonnet")
    assert written.find("sonnet").supplier == "anthropic"
    assert written.suppliers["anthropic"].key == "sk-one"


def test_the_same_choice_again_adds_nothing_and_a_new_key_replaces_the_old(layout: Layout) -> None:
    first = write_default(layout, SONNET, ANTHROPIC)
    assert write_default(layout, SONNET, ANTHROPIC) == first
    again = write_default(
        layout, SONNET, Supplier(ANTHROPIC.dialect, ANTHROPIC.url, "env:OTHER_KEY")
    )
    assert again.names == ("sonnet",)
    assert again.suppliers["anthropic"].key == "env:OTHER_KEY"


def test_a_name_that_means_something_else_keeps_its_meaning() -> None:
    taken = Models(
        suppliers={"anthropic": Supplier("anthropic", "https://elsewhere.example", "k")},
        models=(Model(name="sonnet", engine="offline"),),
    )
    after = add_default(taken, SONNET, ANTHROPIC)
    assert after.models[0] == taken.models[0]
    assert after.default == "sonnet-2"
    assert after.find("sonnet-2").supplier == "anthropic-2"
    assert after.suppliers["anthropic"] == taken.suppliers["anthropic"]


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:11434/v1", "http://localhost:1", "http://[::1]:1/v1"]
)
def test_a_supplier_without_a_host_name_gets_a_plain_name(url: str) -> None:
    after = add_default(Models(), SONNET, Supplier("openai-chat", url))
    assert list(after.suppliers) == ["supplier"]


def test_a_file_with_a_problem_stays_as_it_is(layout: Layout) -> None:
    path = Path(layout.models)
    path.parent.mkdir()
    path.write_text("models: 7\n")
    with pytest.raises(Conflict):
        write_default(layout, CLAUDE, None)
    assert path.read_text() == "models: 7\n"
