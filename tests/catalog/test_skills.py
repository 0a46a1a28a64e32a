"""Skills in the order that a person gave, and what a model is told of one."""

from agentd.catalog.skills import (
    Look,
    Skill,
    Skills,
    SkillSettings,
    arranged,
    instructions,
    strangers,
)


def skill(name: str) -> Skill:
    return Skill(name, "d", "Look twice.", f"/config/skills/{name}")


def names(skills: Skills) -> list[str]:
    return [one.name for one in skills.all]


def test_the_named_skills_come_first_in_their_order_then_the_others_by_alphabet():
    settings = SkillSettings(skills={"z": Look("#112233"), "gone": Look(), "b": Look()})
    skills = arranged(map(skill, "cabz"), settings)
    assert names(skills) == ["z", "b", "a", "c"]
    assert [one.color for one in skills.all] == ["#112233", "", "", ""]


def test_a_default_that_is_not_there_is_none():
    assert arranged([skill("a")], SkillSettings("a")).default == "a"
    assert arranged([skill("a")], SkillSettings("b")).default == "none"
    assert arranged([], SkillSettings()) == Skills()


def test_a_skill_is_found_by_its_name():
    skills = Skills((skill("a"),))
    assert skills.find("a") == skill("a")
    assert skills.find("none") is None


def test_what_the_settings_say_of_skills_that_are_not_there_is_told_in_place():
    settings = SkillSettings("reviw", {"review": Look(), "rewiev": Look()})
    assert list(strangers(settings, ["review"])) == [
        (("skills", "rewiev"), 'there is no such skill; did you mean "review"?'),
        (("default",), 'there is no skill "reviw"; did you mean "review"?'),
    ]
    assert not list(strangers(SkillSettings("none", {"a": Look()}), ["a"]))


def test_a_model_is_told_the_text_and_where_the_further_files_are():
    told = instructions(skill("review"))
    assert "# Skill: review\n\nLook twice.\n" in told
    assert "/config/skills/review" in told
