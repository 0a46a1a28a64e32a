"""The modules that only compute, called in a page: no Node is needed to test them."""

import json
import shlex
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest

from agentd.core.folding import fold_text
from tests.support.daemon import Serving
from tests.ui.support import Person

from playwright.sync_api import Browser, Error, Page  # isort: skip

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def page(browser: Browser, site: Serving) -> Page:
    """A page of ours, whose modules can be imported."""
    return Person(browser.new_context(service_workers="block"), site.url).open("/login")


@pytest.fixture
def call(page: Page) -> Call:
    """Call a function of a module."""

    def call(module: str, function: str, *arguments: object) -> Any:
        return page.evaluate(
            """async ([module, name, given]) => {
              const main = document.querySelector('script[src]').src;
              const found = await import(new URL(module, main).href);
              const result = found[name](...given);
              return result?.next ? [...result] : result;
            }""",
            [module, function, list(arguments)],
        )

    return call


@pytest.mark.parametrize(
    "text", ["Straße", "cafe\u0301 CAFÉ", "İstanbul", "ΟΔΟΣ ὀδός", "ﬃ", "が한", "ǅ", "plain"]
)
def test_texts_are_folded_as_the_daemon_folds_them(call: Call, text: str) -> None:
    for form in (text, unicodedata.normalize("NFD", text)):
        assert call("./core/folding.js", "foldText", form) == fold_text(text)


@pytest.mark.parametrize(
    ("text", "shown"), [("a🫖b", "a"), ("ab🫖", "ab"), ("🫖a", "🫖"), ("", "")]
)
def test_the_beginning_of_a_text_ends_with_a_whole_character(
    call: Call, text: str, shown: str
) -> None:
    assert call("./core/counts.js", "beginningOf", text, 2) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0.0 s"),
        (-3, "0.0 s"),
        (4.12, "4.1 s"),
        (59.9, "59 s"),
        (192, "3 m 12 s"),
        (7500, "2 h 5 m"),
        (200_000, "2 d 7 h"),
    ],
)
def test_durations_have_two_units_at_most(call: Call, seconds: float, shown: str) -> None:
    assert call("./core/durations.js", "duration", seconds) == shown


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [(521_000, "8:41"), (-5, "0:00"), (1, "0:01"), (3_600_000, "1:00:00")],
)
def test_what_is_left_is_counted_down(call: Call, milliseconds: int, shown: str) -> None:
    assert call("./core/durations.js", "countdown", milliseconds) == shown


@pytest.mark.parametrize(
    ("sum_", "shown"),
    [
        (0, "$0.00"),
        (1e-7, "< $0.0001"),
        (0.1413, "$0.1413"),
        (18.42, "$18.42"),
        (1204.6, "$1,205"),
        (-2, "\u2212$2.00"),
    ],
)
def test_sums_have_the_digits_they_need(call: Call, sum_: float, shown: str) -> None:
    assert call("./core/money.js", "usd", sum_) == shown


@pytest.mark.parametrize(
    ("details", "place", "what"),
    [
        (
            "Expected `int` >= 0 - at `$.limits.day`",
            "limits.day",
            "expected a whole number of at least 0",
        ),
        ("Expected `float` < 1.0 - at `$.warnAt`", "warnAt", "expected a number below 1"),
        ("Expected `int | null`, got `float` - at `$.a`", "a", "expected a whole number"),
        (
            "Expected `str` of length <= 9 - at `$.a`",
            "a",
            "expected a text of at most 9 characters",
        ),
        (
            "Expected `array` of length >= 1 - at `$.a`",
            "a",
            "expected a list of at least 1 entry",
        ),
        ("Expected small letters - at `key` in `$.by`", "by", "expected small letters"),
        (
            "Invalid enum value 'x' - at `$.a[0].b` (known: y)",
            "a[0].b",
            "Invalid enum value 'x' (known: y)",
        ),
        ("Expected `odd` >= 1 - at `$.a`", "a", "expected `odd` >= 1"),
        ("a - at `$.b` - at `$.c`", "c", "a - at `$.b`"),
        ("name: expected visible characters", "", "name: expected visible characters"),
        ("", "", ""),
    ],
)
def test_a_refusal_is_taken_apart_and_told_in_words(
    call: Call, details: str, place: str, what: str
) -> None:
    assert call("./core/refusals.js", "readRefusal", details) == {"place": place, "what": what}


@pytest.mark.parametrize(
    ("text", "closed"),
    [
        ("one line", ""),
        ("one\n\ntwo", "one\n\n"),
        ("```\na\n\nb\n", ""),
        ("```\na\n\nb\n```\n\nrest", "```\na\n\nb\n```\n\n"),
        ("~~~\n```\n\n~~~\n\nx", "~~~\n```\n\n~~~\n\n"),
        ("a\n\nb\n\nc", "a\n\nb\n\n"),
    ],
)
def test_only_closed_blocks_of_a_growing_reply_are_rendered(
    call: Call, text: str, closed: str
) -> None:
    assert text[: call("./parts/prose.js", "closedUpTo", text, 0)] == closed


def test_a_diff_is_read_with_the_numbers_of_its_lines(call: Call) -> None:
    text = (
        "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -41,3 +41,3 @@ def f():\n"
        " kept\n-old\n+--- new\n kept too\n@@ -90 +90,2 @@\n last\n+more\n"
        "--- a/y.txt\n+++ b/y.txt\n@@ -0,0 +1 @@\n+all\n"
    )
    files = call("./parts/diff.js", "parseDiff", text)
    first = files[0]
    assert (first["path"], first["added"], first["removed"]) == ("x.py", 2, 1)
    assert [(line["kind"], line["number"], line["text"]) for line in first["lines"]] == [
        (" ", 41, "kept"),
        ("-", 42, "old"),
        ("+", 42, "--- new"),
        (" ", 43, "kept too"),
        (" ", 90, "last"),
        ("+", 91, "more"),
    ]


def test_the_marks_at_a_replys_end_are_its_buttons(call: Call) -> None:
    assert call("./agent/turns.js", "splitButtons", "Which?\n\n[[A|do a]] [[B]]\n[[C]]\n") == {
        "text": "Which?\n",
        "buttons": [
            {"label": "A", "prompt": "do a"},
            {"label": "B", "prompt": "B"},
            {"label": "C", "prompt": "C"},
        ],
    }
    assert call("./agent/turns.js", "splitButtons", "a [[wiki]] link")["buttons"] == []


@pytest.mark.parametrize(
    ("language", "text", "kinds"),
    [
        ("python", 'def f(): return "a" # b', ["keyword", "name", "keyword", "string", "comment"]),
        ("js", "const x = 1; // y", ["keyword", "number", "comment"]),
        ("text", "it's plain", []),
        ("sql", "SELECT 1 -- it's", ["keyword", "number", "comment"]),
        ("", "don't if", ["keyword"]),
    ],
)
def test_code_is_told_apart(call: Call, language: str, text: str, kinds: list[str]) -> None:
    found = call("./parts/code.js", "tokens", text, language)
    assert [kind for kind, _, _ in found] == kinds
    assert all(0 <= start < end <= len(text) for _, start, end in found)


@pytest.mark.parametrize("unit", ['"\\', "`\\`", "'\\'x", "/*", '"""', "a(", "\\\"'"])
def test_hostile_code_is_coloured_in_linear_time(page: Page, call: Call, unit: str) -> None:
    """At the most that is coloured; quadratic would be minutes."""
    spent = page.evaluate(
        """async (text) => {
          const main = document.querySelector('script[src]').src;
          const { tokens } = await import(new URL('./parts/code.js', main).href);
          const began = performance.now();
          let count = 0;
          for (const _ of tokens(text, 'js')) count++;
          return performance.now() - began;
        }""",
        (unit * 64_000)[:64_000],
    )
    assert spent < 5000


TYPED = {
    "1,5": "1.5", "0,125": "0.125", ",5": ".5", "12,50": "12.50", "1,2345": "1.2345",
    "-1,5": "-1.5", "1.5": "1.5", "7": "7", "1,000": "1,000", "12,500": "12,500",
    "1,5,2": "1,5,2", "1.000,5": "1.000,5", "a,5": "a,5", "1,": "1,", "": "",
}  # fmt: skip


def test_a_comma_before_decimals_is_a_point_and_one_before_thousands_is_not(page: Page) -> None:
    found = page.evaluate(
        """async (texts) => {
          const main = document.querySelector('script[src]').src;
          const { SUM, withPoint } = await import(new URL('./core/money.js', main).href);
          const taken = new RegExp(`^(?:${SUM})$`);
          return texts.map((text) => [withPoint(text), taken.test(text)]);
        }""",
        list(TYPED),
    )
    assert [text for text, _ in found] == list(TYPED.values())
    taken = [text for text, (_, is_taken) in zip(TYPED, found, strict=True) if is_taken]
    assert taken == ["1,5", "0,125", ",5", "12,50", "1,2345", "1.5", "7"]


def test_an_effect_follows_what_it_reads_and_ends_with_its_scope(page: Page) -> None:
    found = page.evaluate(
        """async () => {
          const main = document.querySelector('script[src]').src;
          const core = (name) => import(new URL(`./core/${name}.js`, main).href);
          const { signal, computed, effect, scope, flush } = await core('signals');
          const log = [];
          const [a, b] = [signal(1), signal(10)];
          const sum = computed(() => a.value + b.value);
          const follow = () => { log.push(sum.value); return () => log.push('undo'); };
          const [, end] = scope(() => effect(follow));
          a.value = 2; b.value = 20; flush();
          end();
          a.value = 3; flush();
          return log;
        }"""
    )
    assert json.dumps(found) == json.dumps([11, "undo", 22, "undo"])


def test_rows_of_a_list_keep_their_nodes_when_they_move(page: Page) -> None:
    found = page.evaluate(
        """async () => {
          const main = document.querySelector('script[src]').src;
          const core = (name) => import(new URL(`./core/${name}.js`, main).href);
          const { signal, flush } = await core('signals');
          const { list } = await core('list');
          const { el } = await core('el');
          const parent = el('ul');
          const items = signal([{ id: 1, t: 'a' }, { id: 2, t: 'b' }, { id: 3, t: 'c' }]);
          const row = (item) => el('li', null, () => item.value.t);
          list(parent, () => items.value, (item) => item.id, row);
          const before = [...parent.children];
          items.value = [{ id: 3, t: 'c' }, { id: 1, t: 'A' }, { id: 4, t: 'd' }]; flush();
          const after = [...parent.children];
          const text = after.map((node) => node.textContent).join('');
          return [text, after[0] === before[2], after[1] === before[0]];
        }"""
    )
    assert found == ["cAd", True, True]


def test_a_connection_that_ends_within_an_answer_is_a_daemon_that_cannot_be_reached(
    page: Page,
) -> None:
    code, passing = page.evaluate(
        """async () => {
          const main = document.querySelector('script[src]').src;
          const api = await import(new URL("./core/api.js", main).href);
          const usual = window.fetch;
          const cut = new ReadableStream({ start: (answer) => answer.error(new TypeError("cut")) });
          window.fetch = async () =>
            new Response(cut, { headers: { "Content-Type": "application/json" } });
          try {
            return await api.get("/api/about").catch((error) => [error.code, error.passing]);
          } finally {
            window.fetch = usual;
          }
        }"""
    )
    assert (code, passing) == ("offline", True)


def test_a_prompt_sent_while_the_outbox_finishes_is_delivered(page: Page) -> None:
    sent = page.evaluate(
        """async () => {
          const main = document.querySelector('script[src]').src;
          const outbox = await import(new URL("./agent/outbox.js", main).href);
          const [fetched, request] = [window.fetch, navigator.locks.request];
          const sent = [];
          window.fetch = async (address, options) => {
            sent.push(JSON.parse(options.body).prompt);
            return new Response("{}", { headers: { "Content-Type": "application/json" } });
          };
          let second;
          // What is sent after the last look into the outbox, and before the lock is given back.
          navigator.locks.request = async (name, work) => {
            const done = await work();
            second ??= outbox.send({ chatId: 1, text: "second" });
            return done;
          };
          try {
            await outbox.send({ chatId: 1, text: "first" });
            while (!second) await new Promise((resolve) => setTimeout(resolve));
            await Promise.race([second, new Promise((resolve) => setTimeout(resolve, 5000))]);
          } finally {
            window.fetch = fetched;
            navigator.locks.request = request;
          }
          return sent;
        }"""
    )
    assert sent == ["first", "second"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("npx -y @scope/server", ["npx", "-y", "@scope/server"]),
        ('  a  \'b c\' "d \\" e" f\\ g ', ["a", "b c", 'd " e', "f g"]),
        ("a '' \"\"", ["a", "", ""]),
        ("--name='x y'z", ["--name=x yz"]),
        ("", []),
    ],
)
def test_a_command_line_is_split_as_a_shell_does(call: Call, line: str, words: list[str]) -> None:
    module = "./settings/command_line.js"
    assert call(module, "splitWords", line) == words == shlex.split(line)
    assert call(module, "splitWords", call(module, "joinWords", words)) == words


@pytest.mark.parametrize("words", [["it's", "a b", "$HOME", "\\", '"', "\n", ""], ["täglich", "*"]])
def test_words_that_are_joined_are_split_again(call: Call, words: list[str]) -> None:
    module = "./settings/command_line.js"
    assert call(module, "splitWords", call(module, "joinWords", words)) == words


@pytest.mark.parametrize("line", ["'a", 'b "c', "a\\"])
def test_a_quotation_mark_that_is_not_closed_is_an_error(call: Call, line: str) -> None:
    with pytest.raises(Error, match="not closed"):
        call("./settings/command_line.js", "splitWords", line)


@pytest.fixture
def follower(browser: Browser, site: Serving) -> Page:
    """A page whose clock stands still; ``soon()`` has ``reads`` grow, ``answer()`` ends a read."""
    page = Person(browser.new_context(service_workers="block"), site.url).open("/login")
    page.clock.install(time=0)
    page.clock.pause_at(60_000)
    page.evaluate(
        """async () => {
          const main = document.querySelector('script[src]').src;
          const { readSoon } = await import(new URL('./workspace/follow.js', main).href);
          const { detached } = await import(new URL('./core/signals.js', main).href);
          window.reads = 0;
          const read = () => new Promise((resolve) => { reads++; window.answer = resolve; });
          const make = () => { window.soon = readSoon(read); return document.createElement('p'); };
          window.end = detached(make)[1];
        }"""
    )
    return page


def pass_time(page: Page, milliseconds: int, per_call: int = 0) -> int:
    """Let time pass, with an event after each ``per_call`` of it; return how often was read."""
    step = per_call or milliseconds
    for _ in range(milliseconds // step):
        if per_call:
            page.evaluate("soon()")
        page.clock.run_for(step)
    return int(page.evaluate("reads"))


def test_after_a_burst_of_events_is_read_once(follower: Page) -> None:
    assert pass_time(follower, 1000, per_call=100) == 0
    assert pass_time(follower, 400) == 1
    assert pass_time(follower, 60_000) == 1


def test_a_read_is_not_put_off_by_events_that_never_pause(follower: Page) -> None:
    assert pass_time(follower, 3000, per_call=100) == 1
    follower.evaluate("answer()")
    assert pass_time(follower, 3000, per_call=100) == 2


def test_what_is_heard_during_a_read_is_read_after_it(follower: Page) -> None:
    follower.evaluate("soon()")
    assert pass_time(follower, 400) == 1
    assert pass_time(follower, 5000, per_call=100) == 1, "it is not answered yet"
    follower.evaluate("answer()")
    assert pass_time(follower, 400) == 2


def test_a_read_that_is_never_answered_does_not_keep_the_next_waiting_for_ever(
    follower: Page,
) -> None:
    follower.evaluate("soon()")
    assert pass_time(follower, 400) == 1
    follower.evaluate("soon()")
    assert pass_time(follower, 11_000) == 2


def test_nothing_is_read_for_what_is_no_longer_there(follower: Page) -> None:
    follower.evaluate("soon()")
    follower.evaluate("end()")
    assert pass_time(follower, 5000, per_call=100) == 0
