"""Models of the gateway come and go by the API; the rest of ``models.yml`` stays to the byte."""

from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest
from msgspec import structs

from agentd.core.errors import BadRequest, Conflict, NotFound
from agentd.gateway.models.store import GatewayModelRepository
from agentd.llm.price import Prices, Tier
from agentd.models.gateway_model import GatewayModel, ModelRoute
from agentd.models.model import Models
from agentd.models.store import load
from agentd.storage.layout import Layout
from agentd.storage.watched_file import WatchedFile

FILE = """\
# mine
suppliers: {s: {dialect: anthropic, url: "https://a.b"}}
models:
  - {name: chat, engine: native, model: m, supplier: s}   # for chats
proxy:
  # the usual one
  - name: sonnet
    prices: {input: 3, output: 15}
    routes:
      - {channel: anthropic, model: claude-sonnet-4-5}
  - {name: mini, routes: [{channel: openai}]}
# the end
"""

NEW = GatewayModel(
    name="new",
    routes=(ModelRoute(channel="a"), ModelRoute(channel="b", model="x", priority=1, weight=0)),
    prices=Prices(
        input=Decimal("0.10"),
        output=Decimal(2),
        above=(Tier(tokens=200000, input=Decimal("0.20"), output=Decimal("4.5")),),
    ),
    max_output=64000,
)


class ModelFileSetup:
    """A file, how it is followed, and how it is changed."""

    def __init__(self, layout: Layout, text: str | None = FILE) -> None:
        self.path = Path(layout.models)
        if text is not None:
            self.path.parent.mkdir()
            self.path.write_text(text)
        self.models = WatchedFile(layout.models, partial(load, layout), Models())
        self.book = GatewayModelRepository(layout, self.models)

    @property
    def proxy(self) -> dict[str, GatewayModel]:
        return {model.name: model for model in self.models.current.proxy}


@pytest.mark.gen_test
async def test_a_model_is_added_below_the_others_and_holds_at_once(layout):
    world = ModelFileSetup(layout)
    assert await world.book.add(NEW) == NEW
    assert world.proxy["new"] == NEW
    text = world.path.read_text()
    head, tail = FILE.split("# the end")
    assert text.startswith(head)
    assert text.endswith("# the end" + tail)
    assert "    prices: {input: '0.10', output: '2'" in text


@pytest.mark.gen_test
@pytest.mark.parametrize("text", [None, "", "models: []\n", "proxy: []\n"])
async def test_the_first_model_makes_the_section(layout, text):
    world = ModelFileSetup(layout, text)
    await world.book.add(NEW)
    assert world.proxy == {"new": NEW}


@pytest.mark.gen_test
async def test_only_what_changes_is_written(layout):
    world = ModelFileSetup(layout)
    dearer = Prices(input=Decimal(4), output=Decimal(15))
    await world.book.change("sonnet", lambda old: structs.replace(old, prices=dearer))
    assert world.path.read_text() == FILE.replace(
        "prices: {input: 3, output: 15}", "prices: {input: '4', output: '15'}"
    )
    await world.book.change("sonnet", lambda old: structs.replace(old, prices=None))
    assert world.proxy["sonnet"].prices is None
    await world.book.change("mini", lambda old: structs.replace(old, enabled=False))
    assert not world.proxy["mini"].enabled


@pytest.mark.gen_test
async def test_a_copy_is_the_same_model_of_the_supplier_under_another_name(layout):
    world = ModelFileSetup(layout)
    await world.book.copy("mini", "tiny")
    assert world.proxy["tiny"].routes == (ModelRoute(channel="openai", model="mini"),)
    await world.book.copy("sonnet", "opus")
    assert world.proxy["opus"] == structs.replace(world.proxy["sonnet"], name="opus")


@pytest.mark.gen_test
async def test_a_model_leaves_with_its_comment(layout):
    world = ModelFileSetup(layout)
    await world.book.remove("sonnet")
    begin, end = FILE.index("  # the usual"), FILE.index("  - {name: mini")
    assert world.path.read_text() == FILE[:begin] + FILE[end:]
    await world.book.remove("mini")
    assert world.proxy == {}


@pytest.mark.gen_test
async def test_what_cannot_be_is_reported_and_nothing_is_written(layout):
    world = ModelFileSetup(layout)
    with pytest.raises(Conflict, match="already"):
        await world.book.add(structs.replace(NEW, name="mini"))
    with pytest.raises(NotFound, match='did you mean "sonnet"'):
        await world.book.remove("sonet")
    same = structs.replace(NEW, routes=(ModelRoute(channel="a"), ModelRoute(channel="a", weight=2)))
    for wrong in (structs.replace(NEW, name="a b"), structs.replace(NEW, routes=()), same):
        with pytest.raises(BadRequest) as caught:
            await world.book.add(wrong)
        assert caught.value.details
    assert world.path.read_text() == FILE


@pytest.mark.gen_test
async def test_what_would_be_read_as_something_else_is_not_written(layout):
    world = ModelFileSetup(layout)
    number = structs.replace(NEW, routes=(ModelRoute(channel="a", model=5),))
    with pytest.raises(Conflict, match="by hand"):
        await world.book.add(number)
    assert world.path.read_text() == FILE


@pytest.mark.gen_test
async def test_what_uses_a_channel_is_reported(layout):
    world = ModelFileSetup(layout)
    await world.book.add(
        structs.replace(NEW, routes=(ModelRoute(channel="openai"), ModelRoute(channel="a")))
    )
    assert world.models.current.list_using("openai") == ("mini", "new")
    assert world.models.current.list_using("none") == ()
    assert world.models.current.by_channel["openai"] == ("mini", "new")
