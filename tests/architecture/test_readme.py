"""``agentd/README.md`` tells of the tree as it is."""

import re

from tests.architecture.support import ROOT
from tests.architecture.test_imports import FLOORS

TEXT = (ROOT / "README.md").read_text()
GLOSSARY_LINES = 40


def test_every_file_that_it_names_is_there() -> None:
    named = set(re.findall(r"`((?!tests/)(?:[a-z_]+/)+(?:<dialect>/)?[a-z_]+\.py)`", TEXT))
    dialects = [folder.name for folder in (ROOT / "llm" / "dialects").glob("*/")]
    expected = {
        name.replace("<dialect>", dialect)
        for name in named
        for dialect in (["anthropic"] if "<dialect>" in name else [""])
    }
    assert "anthropic" in dialects
    assert len(expected) > 30
    assert {name for name in expected if not (ROOT / name).is_file()} == set()


def test_it_shows_the_floors_of_the_import_rule() -> None:
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \|", TEXT, re.MULTILINE)
    result = {
        (package, int(floor)) for floor, names in rows for package in re.findall(r"`(\w+)/`", names)
    }
    assert result == {
        (package, number) for number, floor in enumerate(FLOORS, 1) for package in floor
    }


def test_the_glossary_fits_on_a_page() -> None:
    glossary = TEXT.partition("## Glossary")[2].strip().splitlines()
    assert 10 < len(glossary) <= GLOSSARY_LINES
