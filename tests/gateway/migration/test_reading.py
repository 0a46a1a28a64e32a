"""Configurations are recognized by their content."""

import json
from typing import Any

import pytest

from agentd.core.errors import BadRequest
from agentd.gateway.migration.plan import MAX_ENTRIES
from agentd.gateway.migration.reading import map_configuration
from tests.gateway.migration.test_new_api import ROW
from tests.gateway.migration.test_new_api_accounts import USER


@pytest.mark.parametrize("row", [ROW, USER])
@pytest.mark.parametrize(("total", "is_whole"), [(1, True), (12, False)])
def test_a_page_of_a_longer_list_is_told(row: dict[str, Any], total: int, is_whole: bool) -> None:
    answer = {"data": {"items": [row], "total": total, "page": 1, "page_size": 10}, "success": True}
    plan = map_configuration("export.json", json.dumps(answer), None, None)
    assert plan.channels or plan.budgets
    if is_whole:
        assert plan.leftovers == ()
        return
    (left,) = plan.leftovers
    assert left.place == "export.json: the file"
    assert left.why.startswith("is a page with 1 of 12 entries; ask for all with ?page_size=12")


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ([{**ROW, "id": number} for number in range(MAX_ENTRIES + 1)], "export.json: the file"),
        ({"model_list": [{}] * (MAX_ENTRIES + 1)}, "export.json:1: model_list"),
        (
            {"model_list": [], "router_settings": {"fallbacks": [{"*": []}] * (MAX_ENTRIES + 1)}},
            "export.json:1: router_settings.fallbacks",
        ),
    ],
)
def test_a_list_that_is_too_long_is_refused_before_its_entries_are_compared(
    content: object, place: str
) -> None:
    with pytest.raises(BadRequest, match=f"^{place} has 2001 entries"):
        map_configuration("export.json", json.dumps(content), None, None)


def test_rows_alone_are_the_whole_list() -> None:
    assert map_configuration("rows.json", json.dumps([USER]), "new-api", None).leftovers == ()
