"""Front matter as people write it: without the quotes that YAML wants, and with comments."""

import pytest

from agentd.agent.custom_commands.model import CommandMatter
from agentd.core.front_matter import split_front_matter
from agentd.storage.yaml.reader import load_yaml


@pytest.mark.parametrize(
    ("front", "matter"),
    [
        ("argument-hint: [file] [depth]\n", CommandMatter(argument_hint="[file] [depth]")),
        ("description: Review: twice\n", CommandMatter(description="Review: twice")),
        ("description: >\n  Two\n  lines\n", CommandMatter(description="Two lines\n")),
        ('description: "quoted: [x]"\n', CommandMatter(description="quoted: [x]")),
        ("model: haiku # the small one\n", CommandMatter(model="haiku")),
        ("model: haiku \t # 1: the # small one\n", CommandMatter(model="haiku")),
        ("description: C#: a#b  \n", CommandMatter(description="C#: a#b")),
        ("description: \\d *all* & 'x'\n", CommandMatter("\\d *all* & 'x'")),
        ("agent: plan\nsubtask: true\n", CommandMatter()),
        (
            "allowed-tools:\n  - Bash(git add:*)\n  - Read\nmodel: m\n",
            CommandMatter(allowed_tools="Bash(git add:*), Read", model="m"),
        ),
    ],
)
def test_front_matter_is_read_as_people_write_it(front: str, matter: CommandMatter) -> None:
    yaml, body = split_front_matter(f"---\n{front}---\nDo it.\n")
    assert body == "Do it.\n"
    assert load_yaml("x", yaml.encode(), CommandMatter, ignore_unknown=True) == matter


def test_a_text_without_front_matter_is_a_body() -> None:
    assert split_front_matter("# Review\n---\n") == ("", "# Review\n---\n")
