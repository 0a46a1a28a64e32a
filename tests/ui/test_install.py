"""The interface can be installed as an app: its manifest, and its icons."""

import json
from base64 import b64encode

from agentd.ui.assets import STATIC_FOLDER
from tests.support.daemon import Serving
from tests.ui.draw_icons import ICONS, draw_icons
from tests.ui.support import Person, person
from tests.ui.test_pages import Visitor

from playwright.sync_api import Browser, expect  # isort: skip

COMPARE = """async (pictures) => {
  const [kept, drawn] = await Promise.all(pictures.map(async (picture) => {
    const bytes = Uint8Array.from(atob(picture), (one) => one.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
    context.drawImage(image, 0, 0);
    const { data, width, height } = context.getImageData(0, 0, image.width, image.height);
    return { data, width, height };
  }));
  const { data, width, height } = kept;
  const differs = (value, index) => !(Math.abs(value - drawn.data[index]) < 64);
  return { width, height, corner: data[3], differ: data.filter(differs).length / data.length };
}"""
"""The size of a picture, how opaque its corner is, and how much of it differs from another."""


def test_the_browser_finds_no_fault_with_the_manifest(browser: Browser, site: Serving) -> None:
    with person(browser, site, workers=True) as somebody:
        page = somebody.open("/settings/you")
        page.locator(".shell").wait_for()
        page.evaluate("navigator.serviceWorker.ready.then(() => 1)")
        protocol = somebody.context.new_cdp_session(page)
        found = protocol.send("Page.getAppManifest")
        faults = protocol.send("Page.getInstallabilityErrors")["installabilityErrors"]
        # Chromium installs nothing while it is incognito, as each test is.
        assert [one["errorId"] for one in faults if one["errorId"] != "in-incognito"] == []
    manifest = json.loads(found["data"])
    assert found["url"] == f"{site.url}/manifest.webmanifest"
    assert found["errors"] == []
    assert found["manifest"]["id"] == f"{site.url}/"
    assert found["manifest"]["scope"] == f"{site.url}/"
    assert found["manifest"]["startUrl"] == f"{site.url}/chats"
    assert manifest["name"] == manifest["short_name"] == "agentd"
    assert manifest["display"] == "standalone"


def test_the_icons_that_are_named_are_there_as_they_are_named(site: Serving) -> None:
    manifest = json.loads((STATIC_FOLDER / "manifest.webmanifest").read_text())
    named = {one["src"]: one for one in manifest["icons"]}
    visitor = Visitor(site)
    for name, icon in named.items():
        reply = visitor.get(f"/{name}")
        assert reply.headers["Content-Type"] == icon["type"]
        assert reply.body == (STATIC_FOLDER / name).read_bytes()
        if name in ICONS:
            width, is_rounded = ICONS[name]
            assert icon["sizes"] == f"{width}x{width}"
            assert (icon.get("purpose") == "maskable") == (not is_rounded)
    assert {(one["sizes"], one.get("purpose", "any")) for one in named.values()} >= {
        ("192x192", "any"),
        ("512x512", "any"),
        ("512x512", "maskable"),
    }
    assert b'<link rel="apple-touch-icon" href="./icon-180.png">' in visitor.get("/login").body
    assert visitor.get("/icon-180.png").headers["Content-Type"] == "image/png"


def test_the_icons_are_those_of_the_drawing(browser: Browser) -> None:
    """Write them anew with ``python -m tests.ui.draw_icons``."""
    page = browser.new_page()
    for name, drawn in draw_icons(browser).items():
        width, is_rounded = ICONS[name]
        kept = (STATIC_FOLDER / name).read_bytes()
        assert len(kept) < 16_384
        found = page.evaluate(COMPARE, [b64encode(one).decode() for one in (kept, drawn)])
        assert (found["width"], found["height"]) == (width, width)
        assert found["corner"] == (0 if is_rounded else 255), name
        assert found["differ"] < 0.001, name
    page.close()


def test_the_icons_and_the_manifest_stay_where_they_are_while_one_goes_about(ada: Person) -> None:
    page = ada.open("/inbox")
    links = page.locator("link[rel=icon], link[rel=apple-touch-icon], link[rel=manifest]")
    names = ("icon.svg", "icon-180.png", "manifest.webmanifest")
    page.locator(".nav .item", has_text="Workspace").click()
    expect(page).to_have_url(f"{ada.url}/workspace/changes")
    found = links.evaluate_all("(all) => all.map((one) => one.href)")
    assert found == [f"{ada.url}/{name}" for name in names]
