/** Prompts that are sent at the times of a cron expression: when each runs next, and what came of it. */

import { ApiError, call, callTagged, get, may, post, remove } from "../core/api.js";
import { dot, el, fill, icon } from "../core/el.js";
import { SUM, usd, withPoint } from "../core/money.js";
import { link } from "../core/router.js";
import { computed, signal } from "../core/signals.js";
import { duration } from "../core/durations.js";
import { agoTime, comingTime, fullTime } from "../core/time.js";
import { confirm, openDialog } from "../parts/dialog.js";
import { emptyState, loaded } from "../parts/frame.js";
import { menuButton } from "../parts/menu.js";
import { loadStyle } from "../parts/stylesheet.js";
import { toast, toastError } from "../parts/toast.js";
import { beginEdit } from "../settings/edits.js";
import { follow, labelled, sendForm } from "../settings/frame.js";
import { models, programOf, skills } from "./choices.js";
import { explainSchema } from "./output_schema.js";

await Promise.all([loadStyle("gateway"), loadStyle("settings"), loadStyle("schedules")]);

/**
 * @typedef {import("../api.d.ts").ScheduleView} Schedule
 * @typedef {import("../api.d.ts").ScheduleRunView} Run
 */

/** @type {Record<string, [kind: string, label: string]>} */
const STATES = {
  queued: ["wait", "Queued"], running: ["run", "At work"], completed: ["good", "Completed"], failed: ["bad", "Failed"],
  stopped: ["", "Stopped"], interrupted: ["bad", "Interrupted"], skipped: ["", "Skipped"],
};
const EXAMPLES = [
  ["Every night at 3:00", "0 3 * * *"], ["Weekdays at 8:30", "30 8 * * 1-5"],
  ["Every hour", "0 * * * *"], ["Mondays at 9:00", "0 9 * * 1"],
];

/** @returns {import("../core/router.js").Page} */
export function page() {
  const mayChange = may("manager");
  const opened = signal("");
  const read = loaded(() => get("/api/schedules"), ({ schedules }) => (schedules.length
    ? el("ul", { class: "schedule-rows", "aria-label": "Schedules" }, schedules.map(scheduleRow))
    : emptyState("calendar", "No schedules yet", "A schedule sends a prompt at the times you choose, such as every night.",
      mayChange ? addButton() : null)));
  const reload = () => void read.reload();
  follow(["schedulesUpdate"], reload);

  function addButton() {
    return el("button", { class: "btn", changes: "manager", onclick: () => void edit(null, reload) }, icon("plus"), "Add a schedule");
  }

  /** @param {Schedule} one */
  function scheduleRow(one) {
    const isOpen = computed(() => opened.value === one.name);
    return el("li", { class: one.paused ? "paused" : "" },
      el("div", { class: "line" },
        el("button", { class: "head", "aria-expanded": () => String(isOpen.value),
          onclick: () => (opened.value = isOpen.peek() ? "" : one.name) },
          el("span", { class: "name" }, icon(one.paused ? "pause" : "calendar"), el("b", null, one.name)),
          el("span", { class: "when" }, one.description, el("small", null, `${one.cron} · ${one.zone}`)),
          el("span", { class: "next" }, nextOf(one)),
          el("span", { class: "last" },
            one.last ? [runState(one.last), el("small", null, agoTime(one.last.due))] : el("small", null, "No runs so far"))),
        mayChange ? menuButton({ class: "btn plain icon small", "aria-label": `Actions for ${one.name}` }, [icon("more")], () => [
          { label: "Run now", icon: "play", changes: "manager", onselect: () => void runNow(one) },
          { label: one.paused ? "Resume" : "Pause", icon: one.paused ? "play" : "pause", changes: "manager",
            onselect: () => void act(() => post(`${at(one)}/${one.paused ? "resume" : "pause"}`)) },
          { label: "Edit", icon: "pencil", changes: "manager", onselect: () => void edit(one, reload) },
          null,
          { label: "Delete", icon: "trash", danger: true, changes: "manager", onselect: () => void drop(one) },
        ]) : null),
      () => (isOpen.value ? details(one) : null));
  }

  /** @param {() => Promise<unknown>} request */
  async function act(request) {
    try {
      await request();
      reload();
    } catch (error) {
      toastError(error, () => void act(request));
    }
  }

  /** @param {Schedule} one */
  async function runNow(one) {
    await act(async () => {
      const run = await post(`${at(one)}/run`);
      toast(run.state === "failed" ? `It cannot run: ${run.note}` : `${one.name} runs in chat ${run.chatId}`);
      opened.value = one.name;
    });
  }

  /** @param {Schedule} one */
  async function drop(one) {
    const sure = await confirm({
      title: `Delete ${one.name}?`, text: "The history of its runs is deleted with it; their chats stay.",
      action: "Delete", danger: true,
    });
    if (sure) await act(() => remove(at(one)));
  }

  return {
    title: "Schedules",
    body: el("div", { class: "frame" },
      el("header", { class: "bar" }, el("h1", null, "Schedules"), el("span", { class: "grow" }), mayChange ? addButton() : null),
      el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Schedules" },
        el("div", { class: "page settings schedules" }, read.node))),
  };
}

/** @param {Schedule} one */
function nextOf(one) {
  if (one.paused) return el("span", { class: "chip" }, "paused");
  if (!one.next) return el("small", null, "never again");
  return el("span", { title: fullTime(one.next) }, comingTime(one.next));
}

/** @param {Run} run */
function runState(run) {
  const [kind, label] = STATES[run.state] ?? ["", run.state];
  return el("span", { class: `state ${kind}` }, kind ? dot(kind === "run" ? "run beat" : kind) : null, label);
}

/**
 * The prompt and the runs of a schedule, read when they are opened.
 * @param {Schedule} one
 */
function details(one) {
  const runs = loaded(() => get(`${at(one)}/runs`), (/** @type {{ runs: Run[] }} */ answer) => (answer.runs.length
    ? el("ul", { class: "runs", "aria-label": `Runs of ${one.name}` }, answer.runs.map(runRow))
    : el("p", { class: "none" }, "It has not run so far.")));
  follow(["schedulesUpdate"], () => void runs.reload());
  return el("div", { class: "details" },
    el("div", { class: "asis", dir: "auto" }, one.prompt),
    el("p", { class: "state" }, [
      one.chat ? el("a", { href: link(`/${one.chat}`) }, `continues chat ${one.chat}`) : "a new chat for each run",
      one.worktree ? " · with a work tree" : "", one.model ? ` · ${one.model}` : "", one.mode ? ` · mode ${one.mode}` : "",
      one.budget ? ` · at most ${usd(one.budget)} a run` : "", one.output_schema ? " · replies are JSON that fits a schema" : "",
      one.missed === "once" ? " · missed runs: one for all" : " · missed runs: skipped",
      one.overlap === "queue" ? " · runs may overlap" : "",
    ]),
    runs.node);
}

/** @param {Run} run */
function runRow(run) {
  const seconds = run.startedAt && run.endedAt ? (Date.parse(run.endedAt) - Date.parse(run.startedAt)) / 1000 : 0;
  return el("li", null,
    el("time", { datetime: run.due, title: fullTime(run.due) }, agoTime(run.due)),
    runState(run),
    el("span", { class: "why" }, run.note || { due: "", missed: "made up for a missed time", hand: "by hand" }[run.cause] || "",
      run.missed ? ` ${run.missed} earlier missed` : ""),
    seconds ? el("small", null, duration(seconds)) : el("span", null),
    run.cost ? el("small", null, usd(run.cost)) : el("span", null),
    run.chatId ? el("a", { class: "btn plain small", href: link(`/${run.chatId}`) }, `Chat ${run.chatId}`) : el("span", null));
}

/** @param {{ name: string }} one */
function at(one) {
  return `/api/schedules/${encodeURIComponent(one.name)}`;
}

/**
 * @param {Schedule | null} one null: a new one
 * @param {() => void} done
 */
function edit(one, done) {
  const text = (/** @type {Record<string, any>} */ attributes) => el("input", { class: "input", autocomplete: "off", ...attributes });
  return openDialog(one ? `Edit ${one.name}` : "Add a schedule", (close) => {
    const name = text({
      name: "name", value: one?.name ?? "", required: true, maxlength: 40, pattern: "[a-z0-9]([a-z0-9_\\-]*[a-z0-9])?", autofocus: !one,
    });
    const prompt = el("textarea", { name: "prompt", class: "input", rows: 4, required: true, dir: "auto" }, one?.prompt ?? "");
    const cron = text({ name: "cron", value: one?.cron ?? "0 3 * * *", required: true, maxlength: 200, spellcheck: false });
    const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const zone = text({ name: "zone", value: one?.zone ?? here, required: true, list: "zones" });
    const chat = text({
      name: "chat", value: one?.chat ?? "", inputmode: "numeric", pattern: "[1-9][0-9]*", placeholder: "a new one for each run",
    });
    const budget = text({
      name: "budget", value: one?.budget ?? "", inputmode: "decimal", pattern: SUM, placeholder: "no limit of its own",
    });
    const model = select("Model", [["", "As the settings say"], ...models.peek().models.map(({ name: known }) => [known, known])],
      one?.model ?? "");
    const skill = select("Skill", [["", "No skill"], ...skills.peek().skills.map(({ name: known }) => [known, known])], one?.skill ?? "");
    const mode = modeSelect(model.input, one?.mode ?? "");
    const missed = select("Missed runs", [["skip", "Skip them"], ["once", "One run for all of them"]], one?.missed ?? "skip");
    const overlap = select("While the previous run is active", [["skip", "Skip this run"], ["queue", "Run all the same"]],
      one?.overlap ?? "skip");
    const schema = el("textarea", {
      name: "output_schema", class: "input mono", rows: 3, spellcheck: "false", placeholder: "none: any text will do",
    }, one?.output_schema ? JSON.stringify(one.output_schema, null, 2) : "");
    const apart = el("input", { type: "checkbox", checked: one?.worktree ?? false });
    const read = () => {
      const own = chat.value.trim();
      return {
        name: name.value.trim(), prompt: prompt.value, cron: cron.value.trim(), zone: zone.value.trim(), chat: own ? Number(own) : null,
        title: own ? "" : one?.title ?? "", model: model.input.value, skill: own ? "" : skill.input.value,
        mode: own ? "" : mode.input.value, worktree: !own && apart.checked,
        budget: budget.value.trim() ? Number(withPoint(budget.value.trim())) : null,
        missed: missed.input.value, overlap: overlap.input.value,
        output_schema: readSchema(schema.value), paused: one?.paused ?? false,
      };
    };
    const merge = beginEdit(read(), one ?? {});
    const send = async () => {
      if (one) await change(one, (now) => merge(read(), now));
      else await call("POST", "/api/schedules", { body: read() });
      close();
      done();
    };
    return [sendForm({ action: one ? "Save" : "Add", class: "schedule-form", oncancel: () => close(), send },
      labelled("Name", name, "Lower-case letters, digits, - and _."),
      labelled("Prompt", prompt),
      labelled("Times, as in cron", cron, "Minute, hour, day of the month, month, day of the week."),
      el("div", { class: "ideas" }, EXAMPLES.map(([label = "", fields = ""]) =>
        el("button", { class: "btn small", type: "button", onclick: () => (cron.value = fields) }, label))),
      labelled("Time zone", zone), zoneList(),
      labelled("Chat", chat, "The number of the chat to continue; empty: each run has a chat of its own."),
      el("div", { class: "two" }, model.node, skill.node, mode.node, missed.node, overlap.node),
      labelled("Budget of a run, in USD", budget, "A turn that has cost this much is ended."),
      labelled("Output schema", schema, "A JSON Schema of an object: the reply of each run is JSON that fits it."),
      el("label", { class: "checked" }, apart,
        el("span", null, "A work tree of its own", el("small", null, "Each new chat works on a branch and in a folder of its own.")))),
    ];
  }, { wide: true });
}

/**
 * Save a schedule as it is to be by what it is now.
 * @param {Schedule} one
 * @param {(now: Schedule) => Record<string, unknown>} revise
 */
async function change(one, revise) {
  const { body, etag } = await callTagged("GET", "/api/schedules");
  const now = body.schedules.find((/** @type {Schedule} */ each) => each.name === one.name);
  await call("PUT", at(one), { body: revise(now ?? one), ifMatch: etag });
}

/** @param {string} text @returns {Record<string, unknown> | null} */
function readSchema(text) {
  if (!text.trim()) return null;
  const problem = explainSchema(text);
  if (problem) throw new ApiError(422, "input", `Output schema: ${problem}`);
  return JSON.parse(text);
}

function zoneList() {
  return el("datalist", { id: "zones" }, Intl.supportedValuesOf("timeZone").map((zone) => el("option", { value: zone })));
}

/**
 * @param {string} label
 * @param {string[][]} choices
 * @param {string} value
 */
function select(label, choices, value) {
  const known = choices.some(([name]) => name === value) ? choices : [...choices, [value, value]];
  const input = el("select", { class: "input" }, options(known, value));
  return { input, node: labelled(label, input) };
}

/**
 * The modes of the chosen model's program; hidden where it has none.
 * @param {HTMLSelectElement} model
 * @param {string} value
 */
function modeSelect(model, value) {
  const usual = ["", "The usual one"];
  const choices = () => [usual, ...programOf(model.value).modes.map((mode) => [mode.id, mode.name])];
  const { input, node } = select("Mode", choices(), value);
  node.hidden = input.options.length === 1;
  model.addEventListener("change", () => {
    fill(input, options(choices(), input.value));
    node.hidden = input.options.length === 1;
  });
  return { input, node };
}

/** @param {string[][]} choices @param {string} value */
function options(choices, value) {
  return choices.map(([name = "", shown = ""]) => el("option", { value: name, selected: name === value }, shown));
}
