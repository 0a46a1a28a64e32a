"""What a new chat begins with: the default skill, or what was chosen for the last one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Client, Serving, until
from tests.ui.support import Person, TalkingEngine

from playwright.sync_api import Page, expect  # isort: skip


@pytest.fixture
def site(tmp_path: Path, talking: TalkingEngine) -> Iterator[Serving]:
    """A daemon with two skills."""
    serving = Serving(tmp_path, talking)
    for name in ("review", "ship"):
        folder = Path(serving.layout.skills) / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: d\n---\nDo.\n")
    with serving:
        yield serving


@pytest.fixture
def client(site: Serving) -> Client:
    """A client of the daemon."""
    return site.client()


def begin(page: Page, text: str, talking: TalkingEngine) -> str:
    """Begin a chat, and return the skill of its turn."""
    page.get_by_label("The first prompt").fill(text)
    page.get_by_label("The first prompt").press("Enter")
    expect(page.locator(".prose", has_text=f"echo: {text}")).to_be_visible()
    return next(one.skill for one in talking.given if one.prompt == text)


def choose_skill(page: Page, name: str) -> None:
    """Choose a skill for the next chat."""
    page.get_by_role("button", name="Skill").click()
    page.get_by_role("menuitemradio", name=name).click()


def test_the_default_skill_is_offered_until_another_or_none_is_chosen(
    ada: Person, client: Client, talking: TalkingEngine
) -> None:
    page = ada.open("/")
    skill = page.get_by_role("button", name="Skill")
    expect(skill).to_have_text("No skill")
    client.post("/api/skills/select", {"skill": "review"})
    expect(skill).to_have_text("review")
    assert begin(page, "with the default", talking) == "review"
    page.goto(f"{ada.url}/")
    expect(skill).to_have_text("review")
    choose_skill(page, "No skill")
    expect(skill).to_have_text("No skill")
    assert begin(page, "with none", talking) == "none"
    page.goto(f"{ada.url}/")
    expect(skill).to_have_text("No skill")
    choose_skill(page, "review")
    assert begin(page, "with the default again", talking) == "review"
    client.post("/api/skills/select", {"skill": "ship"})
    page.goto(f"{ada.url}/")
    expect(skill).to_have_text("ship")


def test_a_model_and_a_skill_that_are_gone_are_offered_no_more(
    ada: Person, client: Client, site: Serving, talking: TalkingEngine
) -> None:
    page = ada.open("/")
    choose_skill(page, "ship")
    page.get_by_role("button", name="Model:").click()
    page.get_by_role("menuitemradio", name="mine").click()
    begin(page, "with both", talking)
    models, skill = Path(site.layout.models), Path(site.layout.skills) / "ship" / "SKILL.md"
    models.write_text(models.read_text().replace("name: mine", "name: other"))
    skill.unlink()
    until(lambda: "mine" not in [one["name"] for one in client.get("/api/models")["models"]])
    page.goto(f"{ada.url}/")
    expect(page.get_by_role("button", name="Model: Default engine")).to_be_visible()
    expect(page.get_by_role("button", name="Skill")).to_have_text("No skill")
    assert begin(page, "with neither", talking) == "none"


def test_a_first_prompt_without_blanks_is_sent_though_its_title_ends_within_a_character(
    ada: Person, client: Client, talking: TalkingEngine
) -> None:
    """Half of an emoji in the title made the daemon refuse the request."""
    begin(ada.open("/"), "🫖" * 40, talking)
    (chat,) = client.get("/api/chats")["chats"]
    assert chat["title"] == "🫖" * 35 + "…"
