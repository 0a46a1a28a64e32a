"""Skills in the order that a person gave, and what a model is told of one."""

from agentd.skills.model import (
    Skill,
    SkillAppearance,
    SkillSet,
    SkillSettings,
    arrange_skills,
    find_unknown_skills,
    render_instructions,
)


def make_skill(name: str) -> Skill:
    return Skill(name, "d", "Look twice.", f"/config/skills/{name}")


def list_names(skills: SkillSet) -> list[str]:
    return [one.name for one in skills.all]


def test_the_named_skills_come_first_in_their_order_then_the_others_by_alphabet():
    settings = SkillSettings(
        skills={"z": SkillAppearance("#112233"), "gone": SkillAppearance(), "b": SkillAppearance()}
    )
    skills = arrange_skills(map(make_skill, "cabz"), settings)
    assert list_names(skills) == ["z", "b", "a", "c"]
    assert [one.color for one in skills.all] == ["#112233", "", "", ""]


def test_a_default_that_does_not_exist_is_none():
    assert arrange_skills([make_skill("a")], SkillSettings("a")).default == "a"
    assert arrange_skills([make_skill("a")], SkillSettings("b")).default == "none"
    assert arrange_skills([], SkillSettings()) == SkillSet()


def test_a_skill_is_found_by_its_name():
    skills = SkillSet((make_skill("a"),))
    assert skills.find("a") == make_skill("a")
    assert skills.find("none") is None


def test_what_the_settings_say_of_skills_that_do_not_exist_is_reported_in_place():
    settings = SkillSettings("reviw", {"review": SkillAppearance(), "rewiev": SkillAppearance()})
    assert list(find_unknown_skills(settings, ["review"])) == [
        (("skills", "rewiev"), 'there is no such skill; did you mean "review"?'),
        (("default",), 'there is no skill "reviw"; did you mean "review"?'),
    ]
    assert not list(find_unknown_skills(SkillSettings("none", {"a": SkillAppearance()}), ["a"]))


def test_a_model_is_informed_the_text_and_where_the_further_files_are():
    result = render_instructions(make_skill("review"))
    assert "# Skill: review\n\nLook twice.\n" in result
    assert "/config/skills/review" in result
