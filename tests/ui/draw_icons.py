"""The interface's icons as PNG, drawn from ``icon.svg``: ``python -m tests.ui.draw_icons``.

Apple's devices, Android's home screens and notifications take no SVG.
"""

from playwright.sync_api import Browser, sync_playwright

from agentd.ui.assets import STATIC_FOLDER
from tests.ui.support import ARGUMENTS, CHROMIUM

ROUNDED = ' rx="14"'
"""The corners of the drawing."""

ICONS = {
    "icon-180.png": (180, False),
    "icon-192.png": (192, True),
    "icon-512.png": (512, True),
    "icon-maskable-512.png": (512, False),
}
"""The width of each, and whether it has round corners: devices that cut corners want whole ones."""


def draw_icons(browser: Browser) -> dict[str, bytes]:
    """Return each icon as PNG."""
    drawing = (STATIC_FOLDER / "icon.svg").read_text()
    assert ROUNDED in drawing
    found = {}
    page = browser.new_page()
    for name, (width, is_rounded) in ICONS.items():
        drawn = drawing if is_rounded else drawing.replace(ROUNDED, "")
        page.set_viewport_size({"width": width, "height": width})
        page.set_content(f"<style>body {{ margin: 0 }} svg {{ display: block }}</style>{drawn}")
        found[name] = page.screenshot(omit_background=True)
    page.close()
    return found


def main() -> None:
    """Write the icons into the folder of the interface."""
    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for name, content in draw_icons(browser).items():
            (STATIC_FOLDER / name).write_bytes(content)
        browser.close()


if __name__ == "__main__":
    main()
