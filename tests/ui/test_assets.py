"""The files of the browser interface, as they are read at the start."""

import gzip
import re
from pathlib import Path

import pytest

from agentd.ui.assets import MEDIA_TYPES, STATIC_FOLDER, AssetBundle, load_assets

MOST_LINES = 400
LONGEST_LINE = 140

MODULES = sorted(STATIC_FOLDER.rglob("*.js"))
IMPORT = re.compile(r'(?:^(?:import|export)\b[^"();=]*?|\bimport\()"([^"]+)"', re.MULTILINE)


def get_name(path: Path) -> str:
    return path.relative_to(STATIC_FOLDER).as_posix()


@pytest.fixture(scope="module")
def bundle() -> AssetBundle:
    return load_assets()


def test_the_version_changes_with_any_file() -> None:
    one = AssetBundle({"a.js": b"1", "b.js": b"2"})
    assert one.version == AssetBundle({"b.js": b"2", "a.js": b"1"}).version
    others = [
        AssetBundle({"a.js": b"1", "b.js": b"3"}),
        AssetBundle({"a.js": b"12", "b.js": b""}),
        AssetBundle({"c.js": b"1", "b.js": b"2"}),
    ]
    assert one.version not in {other.version for other in others}


def test_what_is_compressed_is_the_same_file(bundle: AssetBundle) -> None:
    compressed = [asset for asset in bundle.assets.values() if asset.compressed]
    assert len(compressed) > 10
    for asset in compressed:
        assert gzip.decompress(asset.compressed) == asset.content


def test_files_of_other_kinds_are_not_served(tmp_path: Path) -> None:
    (tmp_path / "page.js").write_bytes(b"")
    (tmp_path / "notes.txt").write_bytes(b"")
    assert list(load_assets(tmp_path).assets) == ["page.js"]


def test_the_static_imports_of_a_module_are_found_in_order() -> None:
    bundle = AssetBundle(
        {
            "main.js": b'import { a } from "./core/a.js";\n'
            b'export * from "./b.js";\nimport("./c.js");',
            "core/a.js": b'import "../b.js";\n',
            "b.js": b"",
            "c.js": b"",
        }
    )
    assert bundle.list_imports("main.js") == ["main.js", "core/a.js", "b.js"]


@pytest.mark.parametrize("path", MODULES, ids=get_name)
def test_every_import_leads_to_a_module_of_ours(path: Path) -> None:
    for target in IMPORT.findall(path.read_text()):
        assert target.startswith("."), f"{get_name(path)} imports {target}"
        assert (path.parent / target).is_file(), f"{get_name(path)} imports {target}"


@pytest.mark.parametrize(
    "path", [path for path in MODULES if get_name(path).startswith("core/")], ids=get_name
)
def test_the_core_knows_no_page_and_no_part(path: Path) -> None:
    outward = [target for target in IMPORT.findall(path.read_text()) if not target.startswith("./")]
    assert set(outward) <= {"../api.d.ts"}, "types of the API are known to all"


def test_modules_are_short_enough_to_see_whole() -> None:
    longer = [get_name(path) for path in MODULES if path.read_text().count("\n") > MOST_LINES]
    assert not longer


def test_lines_are_short_enough_to_be_read() -> None:
    longer = [
        f"{get_name(path)}:{number}"
        for path in MODULES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > LONGEST_LINE
    ]
    assert not longer


def test_html_enters_at_one_place_only() -> None:
    sinks = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|setHTML|DOMParser")
    found = {get_name(path) for path in MODULES if sinks.search(path.read_text())}
    assert found == {"core/trusted.js"}


NOT_LOADED = (
    "http://www.w3.org/2000/svg",
    "https://api.telegram.org",
    "https://example.org/alerts",
    "https://docs.example/mcp",
)
"""A namespace, and what forms propose."""


def test_nothing_is_loaded_from_elsewhere() -> None:
    for path in STATIC_FOLDER.rglob("*"):
        if path.suffix in MEDIA_TYPES and path.suffix != ".png" and path.is_file():
            text = path.read_text()
            for known in NOT_LOADED:
                text = text.replace(known, "")
            assert not re.search(r"""["'(]https?://""", text), get_name(path)


def test_every_icon_that_is_used_is_in_the_sprite(bundle: AssetBundle) -> None:
    drawn = set(re.findall(r'<symbol id="([\w-]+)"', bundle.get_text("icons.svg")))
    used = {
        icon
        for path in MODULES
        for icon in re.findall(r'\bicon(?:\(|: )"([\w-]+)"', path.read_text())
    }
    assert len(used) > 5
    assert used <= drawn
