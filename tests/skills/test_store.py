"""Skills from real folders: what is broken is told with its line and hides no other skill."""

import asyncio
import os
import re
from pathlib import Path

import pytest

from agentd.core.errors import ConfigError
from agentd.skills import store as skills_store
from agentd.skills.model import Skill, SkillSet, SkillSettings
from agentd.skills.store import SkillFolder, load_skill
from agentd.storage.layout import Layout
from agentd.storage.watched_file import SETTLE_SECONDS
from tests.support.paths import REPOSITORY


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    (tmp_path / "skills").mkdir()
    return Layout(str(tmp_path / "state"), str(tmp_path))


def put(layout: Layout, name: str, text: str | bytes | None = None) -> Path:
    file = Path(layout.skills, name, "SKILL.md")
    file.parent.mkdir(exist_ok=True)
    text = f"---\nname: {name}\ndescription: d\n---\nDo {name}.\n" if text is None else text
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def list_problems(layout: Layout) -> list[str]:
    return [
        str(problem).removeprefix(f"{layout.config}/").removeprefix("skills/")
        for problem in skills_store.check(layout)
    ]


def test_a_skill_is_read_whole(layout):
    put(
        layout,
        "review",
        "---\nname: review\ndescription: >\n  Reads a change,\n  twice.\nlicense: MIT\n"
        "metadata: {author: me}\nallowed-tools: Read Grep\n---\n\n# How\n\n---\nSee more.md\n",
    )
    assert load_skill(layout, "review") == Skill(
        "review",
        "Reads a change, twice.",
        "# How\n\n---\nSee more.md",
        os.path.join(layout.skills, "review"),
    )
    assert not list_problems(layout)


def test_line_ends_of_windows_and_an_empty_body_are_fine(layout):
    put(layout, "a", "---\r\nname: a\r\ndescription: d\r\n---\r\none\r\ntwo")
    assert load_skill(layout, "a").body == "one\ntwo"
    put(layout, "a", "---\nname: a\ndescription: d\n---")
    assert load_skill(layout, "a").body == ""


@pytest.mark.parametrize(
    "description",
    ["Use when: asked", "[beta] reviews", "*All* of it: twice", "Reviews  # and more", "123"],
)
def test_a_skill_of_other_programs_is_read_though_its_description_lacks_quotes(layout, description):
    put(layout, "a", f"---\nname: a\ndescription: {description}\nargument-hint: [x] [y]\n---\nDo.")
    assert load_skill(layout, "a").description == description.removesuffix("  # and more")


def test_the_byte_order_mark_of_an_editor_is_passed_over(layout):
    put(layout, "a", b"\xef\xbb\xbf---\nname: a\ndescription: d\n---\nDo.")
    assert load_skill(layout, "a").body == "Do."


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("# Review\n", "1: expected front matter"),
        ("---\nname: a\n", "1: expected front matter"),
        ("", "1: expected front matter"),
        ("---\nname: a\n---\nx", '2: "description" is missing'),
        ("---\ndescription: d\nname: b\n---\n", '3: name: found "b", expected the name of its'),
        ("---\nname: a\ndescription: ''\n---\n", "3: description: found"),
        (f"---\nname: a\ndescription: {'d' * 1025}\n---\n", "3: description: found"),
        ("---\nname: a\ndescription: 'a' b\n---\n", "3: not YAML"),
        ("---\nname: a\ndescription: d\nx:\n- *y\n---\n", "5: an alias"),
        (b"---\nname: a\ndescription: d\n---\n\ncaf\xe9\n", "6: byte 0xe9 is not UTF-8"),
        ("---\nname: a\ndescription: d\n---\n\x1b[1m\n", "5: the invisible character U+001B"),
        ("---\nname: a\ndescription: d\n---\n" + "x" * 131072, " is larger than 131072 bytes"),
    ],
)
def test_what_is_wrong_with_a_skill_is_reported_with_its_line(layout, text, result):
    put(layout, "a", text)
    (problem,) = list_problems(layout)
    assert problem.startswith(f"a/SKILL.md:{result}")


def test_what_is_no_skill_is_reported_or_passed_over(layout, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (Path(layout.skills) / "link").symlink_to(tmp_path / "elsewhere")
    (Path(layout.skills) / "README.md").touch()
    (Path(layout.skills) / ".git").mkdir()
    (Path(layout.skills) / "empty").mkdir()
    (Path(layout.skills) / "two words").mkdir()
    put(layout, "none")
    put(layout, "inside").unlink()
    (Path(layout.skills) / "inside" / "SKILL.md").symlink_to("/etc/passwd")
    assert [problem.split(";")[0] for problem in list_problems(layout)] == [
        "empty: has no SKILL.md",
        "link: is a symbolic link",
        'none: cannot be a skill: "none" means that a chat has none',
        "two words: cannot be a skill's name: expected letters, digits, dots and dashes",
        "inside/SKILL.md: is a symbolic link",
    ]


def test_the_settings_are_checked_against_the_skills_that_there_are(layout):
    put(layout, "review")
    Path(layout.skills_settings).write_text(
        "default: none\nskills:\n  reviw: {color: '#aabbcc'}\n  review: {color: red}\n"
    )
    (result,) = list_problems(layout)
    assert result.startswith('skills.yml:4: skills.review.color: found "red", expected a colour')
    Path(layout.skills_settings).write_text("skills:\n  reviw: {color: '#aabbcc'}\n")
    assert list_problems(layout) == [
        'skills.yml:2: skills.reviw: there is no such skill; did you mean "review"?'
    ]
    assert list(skills_store.load_settings(layout).skills or {}) == ["reviw"]


def test_without_any_folder_there_are_no_skills(tmp_path):
    layout = Layout(str(tmp_path), str(tmp_path / "nowhere"))
    assert not list_problems(layout)
    assert skills_store.load_settings(layout) == SkillSettings()
    assert asyncio.run(SkillFolder(layout).get_skills()) == SkillSet()


def test_skills_are_as_their_files_are_at_each_look(layout):
    async def test() -> None:
        result: list[SkillSet] = []
        folder = SkillFolder(layout, lambda: result.append(folder.current))
        put(layout, "b")
        put(layout, "a")
        assert [one.name for one in (await folder.get_skills()).all] == ["a", "b"]
        await folder.get_skills()
        assert len(result) == 1
        Path(layout.skills_settings).write_text("default: b\nskills: {b: {color: '#123456'}}\n")
        found = await folder.get_skills()
        assert [(one.name, one.color) for one in found.all] == [("b", "#123456"), ("a", "")]
        assert found.default == "b"
        put(layout, "b").unlink()
        put(layout, "a", "---\nname: a\ndescription: new\n---\n")
        (one,) = (await folder.get_skills()).all
        assert one.description == "new"
        assert len(result) == 3

    asyncio.run(test())


def test_a_broken_skill_stays_as_it_was_and_hides_no_other(layout):
    async def test() -> None:
        folder = SkillFolder(layout)
        put(layout, "a")
        put(layout, "b", "broken from the start")
        assert await folder.is_known("a")
        assert not await folder.is_known("b")
        put(layout, "a", "")
        put(layout, "c")
        found = await folder.get_skills()
        assert [one.name for one in found.all] == ["a", "c"]
        assert found.find("a").body == "Do a."
        assert [problem.line for problem in folder.problems] == [1, 1]
        put(layout, "a", "---\nname: a\ndescription: d\n---\nBetter.\n")
        put(layout, "b")
        assert (await folder.get_skills()).find("a").body == "Better."
        assert folder.problems == ()

    asyncio.run(test())


def test_what_an_editor_empties_before_it_fills_it_is_not_taken_for_empty(layout):
    file = put(layout, "a")
    settings = Path(layout.skills_settings)
    settings.write_text("default: a\n")
    seen: list[tuple[str, str]] = []

    async def look():
        def note():
            seen.append((folder.current.default, folder.current.all[0].body))

        folder = SkillFolder(layout, note)
        await folder.get_skills()
        file.write_text("")
        settings.write_text("")
        looking = asyncio.create_task(folder.get_skills())
        await asyncio.sleep(SETTLE_SECONDS / 5)
        put(layout, "a", "---\nname: a\ndescription: d\n---\nAnew.\n")
        settings.write_text("default: a\nskills: {a: {}}\n")
        await looking
        assert not folder.problems

    asyncio.run(look())
    assert seen == [("a", "Do a."), ("a", "Anew.")]


def test_a_folder_that_cannot_be_listed_keeps_the_skills_and_is_reported(layout):
    async def test() -> None:
        folder = SkillFolder(layout)
        put(layout, "a")
        assert await folder.is_known("a")
        os.rename(layout.skills, f"{layout.skills}~")
        Path(layout.skills).touch()
        assert await folder.is_known("a")
        (problem,) = folder.problems
        assert problem.where == layout.skills

    asyncio.run(test())
    with pytest.raises(ConfigError):
        load_skill(layout, "a")
    assert len(list_problems(layout)) == 1


def test_none_is_always_known_and_no_path_is(layout):
    async def test() -> None:
        folder = SkillFolder(layout)
        put(layout, "a")
        assert await folder.is_known("none")
        for name in ("", ".", "..", "../skills/a", "a/../a", "/etc", "A"):
            assert not await folder.is_known(name)

    asyncio.run(test())


def test_the_examples_of_the_readme_are_read(layout):
    readme = (REPOSITORY / "config" / "README.md").read_text()
    section = readme.partition("## Skills")[2].partition("\n## ")[0]
    (skill,) = re.findall("```markdown\n(.*?)```", section, re.DOTALL)
    (settings,) = re.findall("```yaml\n(.*?)```", section, re.DOTALL)
    put(layout, "review", skill)
    Path(layout.skills_settings).write_text(settings)
    assert not list_problems(layout)
    assert skills_store.load_settings(layout).default == "review"
