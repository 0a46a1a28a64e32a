"""The consistency of ``models.yml``, and the errors of a supplier that are never repeated."""

from decimal import Decimal

import msgspec
import pytest

from agentd.core.errors import NotFound
from agentd.llm.price import Prices
from agentd.models.gateway_model import GatewayModel, ModelRoute
from agentd.models.model import Model, Models, Supplier, validate

SUPPLIER = Supplier("anthropic", "https://api.anthropic.com", "sk-secret")


def list_problems(*models: Model, default: str = "") -> list[tuple[tuple[str | int, ...], str]]:
    return list(validate(Models(default, {"anthropic": SUPPLIER}, models)))


def make_native(name: str = "sonnet", **fields: object) -> Model:
    return msgspec.structs.replace(
        Model(name=name, engine="native", model="m", supplier="anthropic"), **fields
    )


def test_a_model_is_found_by_its_name_and_a_wrong_one_names_the_nearest():
    models = Models(models=(make_native(), make_native("opus")))
    assert models.find("opus").name == "opus"
    assert models.names == ("sonnet", "opus")
    with pytest.raises(NotFound, match='No model is named "sonet"; did you mean "sonnet"'):
        models.find("sonet")


@pytest.mark.parametrize(
    ("model", "place", "said"),
    [
        (
            make_native(supplier="chat", web_search=True),
            "web_search",
            "needs a supplier whose dialect is openai-responses or anthropic",
        ),
        (
            make_native(web_search_price=Decimal("0.01")),
            "web_search_price",
            "means nothing without web_search; remove it",
        ),
    ],
)
def test_a_web_search_needs_a_supplier_that_has_one(model, place, said):
    suppliers = {"anthropic": SUPPLIER, "chat": Supplier("openai-chat", "https://x.example")}
    ((where, why),) = validate(Models("", suppliers, (model,)))
    assert where == ("models", 0, place)
    assert why.startswith(said)


def test_a_model_of_the_gateway_has_its_sizes_and_prices_and_may_search():
    prices = Prices(input=Decimal(3), output=Decimal(15))
    routes = (ModelRoute(channel="acme"),)
    own = GatewayModel(name="m", routes=routes, prices=prices, context=200_000, max_output=64_000)
    model = make_native(supplier="agentd", web_search=True, max_output=1000)
    models = Models(models=(model,), proxy=(own,))
    assert not list(validate(models))
    full = models.complete(model)
    assert (full.prices, full.context, full.max_output) == (prices, 200_000, 1000)
    direct = make_native()
    assert models.complete(direct) == direct


def test_other_engines_search_by_tools_of_their_own():
    (problem,) = list_problems(
        Model(name="x", engine="claude-code", supplier="anthropic", web_search=True)
    )
    assert problem[1] == '"web_search" means nothing to engine claude-code; remove it'


@pytest.mark.parametrize("price", ["-1", "NaN", "1001"])
def test_a_price_of_a_search_is_an_amount(price):
    with pytest.raises(ValueError, match="expected 0 to 1000 USD"):
        make_native(web_search=True, web_search_price=Decimal(price))


def test_what_fits_together_is_no_contradiction():
    models = [
        make_native(),
        make_native("searching", web_search=True, web_search_price=Decimal("0.01")),
        Model(name="offline", engine="offline"),
        Model(name="c", engine="claude-code"),
        Model(name="x", engine="codex", model="gpt", supplier="anthropic", command=("codex",)),
        Model(name="o", engine="acp", command=("opencode", "acp")),
    ]
    assert not list_problems(*models, default="c")


def test_two_models_of_one_name_an_unknown_supplier_and_an_unknown_default_are_told_in_place():
    found = list_problems(
        make_native(), make_native(), make_native("opus", supplier="antropic"), default="sonet"
    )
    assert [place for place, _ in found] == [
        ("models", 1, "name"),
        ("models", 2, "supplier"),
        ("default",),
    ]
    assert 'did you mean "anthropic"' in found[1][1]
    assert 'did you mean "sonnet"' in found[2][1]


@pytest.mark.parametrize(
    ("model", "result"),
    [
        (make_native(supplier=""), '"supplier" is missing; engine native needs it'),
        (make_native(model=""), '"model" is missing; engine native needs it'),
        (make_native(command=("x",)), '"command" means nothing to engine native'),
        (Model(name="a", engine="acp"), '"command" is missing; engine acp needs it'),
        (Model(name="a", engine="offline", effort="high"), '"effort" means nothing to engine off'),
    ],
)
def test_what_an_engine_needs_or_cannot_use_is_reported(model, result):
    ((place, what),) = list_problems(model)
    assert place == ("models", 0)
    assert result in what


def test_the_key_of_a_supplier_is_not_printed():
    models = Models(suppliers={"anthropic": SUPPLIER})
    for text in (repr(SUPPLIER), str(SUPPLIER), f"{models}", repr(models.suppliers)):
        assert "sk-secret" not in text
    assert "api.anthropic.com" in repr(models)


@pytest.mark.parametrize(
    ("key", "holds"), [("sk-1", True), ("env:A", False), ("file:/k", False), ("", False)]
)
def test_whether_the_key_itself_stands_there(key, holds):
    assert Supplier("anthropic", "https://a.b", key).holds_key == holds


@pytest.mark.parametrize(
    "key", ["env:", "env:A-B", "env:1A", "file:", "file:k", "a b", "a\nb", "é"]
)
def test_what_is_no_key_is_refused_and_not_reported(key):
    with pytest.raises(ValueError, match="key: ") as caught:
        Supplier("anthropic", "https://a.b", key)
    assert not key or key not in str(caught.value) or key in ("env:", "file:")
