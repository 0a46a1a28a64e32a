"""Each kind of button can be read in both themes, also the kinds that no page shows at first."""

import re
from itertools import product
from pathlib import Path

import pytest

from agentd.ui.assets import STATIC_FOLDER
from tests.support.daemon import Serving
from tests.ui.support import person

from playwright.sync_api import Browser  # isort: skip

axe = pytest.importorskip("axe_playwright_python.sync_playwright")

NOT_KINDS = {"small", "wide", "icon"}
"""Classes of buttons that change their size."""
STYLES = "\n".join(path.read_text() for path in Path(STATIC_FOLDER).rglob("*.css"))
KINDS = sorted(set(re.findall(r"\.btn\.([a-z]+)", STYLES)) - NOT_KINDS)

SHOW = """classes => {
  const box = document.createElement("div");
  box.id = "buttons";
  Object.assign(box.style, { position: "fixed", inset: "0", zIndex: "99" });
  box.style.background = "var(--paper)";
  for (const name of classes) {
    const button = document.createElement("button");
    button.className = name;
    button.textContent = name;
    box.append(button);
  }
  document.body.append(box);  // which no page renders anew
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_kind_of_button_has_enough_contrast(
    browser: Browser, site: Serving, theme: str
) -> None:
    assert {"danger", "main", "plain", "stop"} <= set(KINDS)
    sizes = ("btn", "btn small", "btn wide")
    classes = [f"{size} {kind}".strip() for size, kind in product(sizes, ("", *KINDS))]
    with person(browser, site, theme=theme) as somebody:
        page = somebody.open("/settings")
        page.locator("main").wait_for()
        page.evaluate(SHOW, classes)
        result = axe.Axe().run(page, "#buttons", {"runOnly": ["color-contrast"]}).response
        assert not result["incomplete"], result["incomplete"]
        failing = [
            node["any"][0]["message"] for one in result["violations"] for node in one["nodes"]
        ]
        assert not failing, "\n".join(failing)
        (measured,) = result["passes"]
        assert len(measured["nodes"]) == len(classes)
