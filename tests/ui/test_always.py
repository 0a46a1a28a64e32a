"""A question is answered always: by a rule that is shown first, and can be removed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from agentd.agent.engine import Question, ReplyCompleted
from tests.support.daemon import HASH, Serving, until
from tests.ui.settings.test_skills_labels_bots import pretend_role
from tests.ui.support import DESK, PHONE, Person, TalkingEngine, person

from playwright.sync_api import Browser, Locator, Page, expect  # isort: skip

RULE = {"decision": "allow", "kind": "shell", "subject": "git push *"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, talking: TalkingEngine) -> Iterator[Serving]:
    """A daemon whose settings were written by hand."""
    folder = tmp_path_factory.mktemp("site")
    serving = Serving(folder, talking)
    file = Path(serving.layout.settings)
    file.parent.mkdir(parents=True)
    file.write_text(
        f"# mine\nport: 0\nworkspace: {folder}\nagent_api_key: {HASH}\nmax_parallel_turns: 9\n"
    )
    with serving:
        yield serving


@pytest.fixture
def file(site: Serving) -> Iterator[Path]:
    """``agentd.yml``, which is afterwards as it was."""
    file = Path(site.layout.settings)
    before = file.read_text()
    yield file
    file.write_text(before)


def open_question(
    somebody: Person, site: Serving, talking: TalkingEngine, question: Question
) -> tuple[Page, Locator, str]:
    """Open a chat that asks; return its page, the card, and the prompt of its turn."""
    prompt = f"work {len(talking.given)}"
    talking.expect(prompt)
    page = somebody.open(f"/{site.client().create_chat(prompt=prompt)}")
    talking.say(prompt, question)
    card = page.get_by_role("region", name="A question of the agent")
    expect(card).to_be_visible()
    page.wait_for_timeout(450)  # no click counts before
    return page, card, prompt


def choose(page: Page, card: Locator, entry: str) -> None:
    """Choose an entry of the card's menu."""
    card.get_by_role("button", name="Always…").click()
    page.get_by_role("menuitem", name=entry).click()


def read_rules(file: Path) -> object:
    return yaml.safe_load(file.read_text()).get("approval_rules", [])


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_a_rule_is_shown_edited_stored_with_the_answer_and_removed_in_the_settings(
    browser: Browser, site: Serving, talking: TalkingEngine, file: Path, size: tuple[int, int]
) -> None:
    """Row 19."""
    answered = len(talking.answers)
    with person(browser, site, size=size) as somebody:
        push = Question("shell", "run_command", "git push origin main")
        page, card, prompt = open_question(somebody, site, talking, push)
        choose(page, card, "Allow this everywhere…")
        dialog = page.get_by_role("dialog", name="Always allow")
        shown, pattern = dialog.get_by_label("The rule"), dialog.get_by_label("What it matches")
        expect(shown).to_have_text("decision: allow\nkind: shell\nsubject: git push origin main")
        pattern.fill("make *")
        dialog.get_by_role("button", name="Always allow").click()
        expect(dialog.get_by_role("alert")).to_contain_text("does not decide this question")
        assert read_rules(file) == []
        expect(card).to_have_count(1)
        pattern.fill("git push *")
        expect(shown).to_have_text("decision: allow\nkind: shell\nsubject: git push *")
        dialog.get_by_role("button", name="Always allow").click()
        expect(dialog).to_have_count(0)
        expect(card).to_have_count(0)
        assert read_rules(file) == [RULE]
        again = Question("shell", "run_command", "git push origin other")
        talking.say(prompt, again, ReplyCompleted("pushed"))
        expect(page.locator(".prose", has_text="pushed")).to_be_visible()
        assert talking.answers[answered:] == [True, True]

        page.get_by_role("button", name="Show the rules").click()
        rules = page.get_by_role("group", name="Rules")
        expect(rules.get_by_role("listitem")).to_have_count(1)
        expect(rules).to_contain_text("allow · shell · git push *")
        rules.get_by_role("button", name="Remove the rule allow").click()
        expect(rules.get_by_role("listitem")).to_have_count(0)
        assert read_rules(file) == []
        page.get_by_role("button", name="Undo").click()
        expect(rules.get_by_role("listitem")).to_have_count(1)
        assert read_rules(file) == [RULE]


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("decision", ["Allow", "Deny"])
def test_an_answer_for_the_chat_is_not_asked_for_again_until_it_is_withdrawn_in_the_panel(
    browser: Browser, site: Serving, talking: TalkingEngine, decision: str, size: tuple[int, int]
) -> None:
    """Row 19."""
    answered = len(talking.answers)
    with person(browser, site, size=size) as somebody:
        pull = Question("shell", "run_command", "git pull --rebase")
        page, card, prompt = open_question(somebody, site, talking, pull)
        choose(page, card, f"{decision} this in this chat")
        expect(card).to_have_count(0)
        talking.say(prompt, pull, ReplyCompleted("pulled"))
        expect(page.locator(".prose", has_text="pulled")).to_be_visible()
        assert talking.answers[answered:] == [decision == "Allow"] * 2

        page.goto(f"{page.url.partition('?')[0]}?panel=details")
        decided = page.locator(".sect", has_text="Decided for this chat").get_by_role("listitem")
        expect(decided).to_contain_text("Allowed" if decision == "Allow" else "Denied")
        expect(decided).to_contain_text("git pull --rebase")
        decided.get_by_role("button", name="Withdraw").click()
        expect(decided).to_have_count(0)
        chat = page.url.partition("?")[0].rpartition("/")[2]
        assert site.client().get(f"/api/chat/{chat}")["standingDecisions"] == []


@pytest.mark.parametrize(
    ("question", "rule"),
    [
        (Question("shell", "run", "rm *.tmp"), {"kind": "shell", "subject": "rm [*].tmp"}),
        (
            Question("other", "mcp__x__add[1]", '{"a": 1}'),
            {"kind": "other", "tool": "mcp__x__add[[]1]", "subject": "*"},
        ),
    ],
    ids=["command", "tool"],
)
def test_what_looks_like_a_pattern_is_denied_by_its_name_alone(
    ada: Person,
    site: Serving,
    talking: TalkingEngine,
    file: Path,
    question: Question,
    rule: dict[str, str],
) -> None:
    """Row 19."""
    page, card, prompt = open_question(ada, site, talking, question)
    card.get_by_label("A note to the agent").fill("never")
    choose(page, card, "Deny this everywhere…")
    dialog = page.get_by_role("dialog", name="Always deny")
    expect(dialog.get_by_label("What it matches")).to_have_value(rule["subject"])
    dialog.get_by_role("button", name="Always deny").click()
    expect(card).to_have_count(0)
    until(lambda: talking.notes[-1:] == ["never"])
    assert read_rules(file) == [{"decision": "deny", **rule}]
    talking.say(prompt, ReplyCompleted("done"))


def test_a_question_that_is_answered_meanwhile_stores_no_rule(
    ada: Person, site: Serving, talking: TalkingEngine, file: Path
) -> None:
    page, card, prompt = open_question(ada, site, talking, Question("shell", "run", "make"))
    choose(page, card, "Allow this everywhere…")
    dialog = page.get_by_role("dialog", name="Always allow")
    asked = site.client().get("/api/chat/approvals")["approvals"][0]
    path = f"/api/chat/{asked['chatId']}/approvals/{asked['id']}"
    assert site.client().post(path, {"decision": "deny"}).status == 200
    dialog.get_by_role("button", name="Always allow").click()
    expect(page.get_by_text("This question is no longer open")).to_be_visible()
    expect(dialog).to_have_count(0)
    assert read_rules(file) == []
    talking.say(prompt, ReplyCompleted("done"))


def test_a_manager_is_offered_no_rule(ada: Person, site: Serving, talking: TalkingEngine) -> None:
    """Row 4."""
    pretend_role(ada, "manager")
    page, card, prompt = open_question(ada, site, talking, Question("shell", "run", "make"))
    card.get_by_role("button", name="Always…").click()
    expect(page.get_by_role("menuitem")).to_have_count(2)
    page.keyboard.press("Escape")
    card.get_by_role("button", name="Deny").click()
    expect(card).to_have_count(0)
    talking.say(prompt, ReplyCompleted("done"))
