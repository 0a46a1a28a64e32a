/** A new chat: what the agent should do, with which model and skill. */

import { may } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { link, navigate } from "../core/router.js";
import { computed, signal } from "../core/signals.js";
import * as store from "../core/store.js";
import { composer } from "../parts/composer.js";
import { menuButton } from "../parts/menu.js";
import { discard, outbox, send, sendAgain } from "./outbox.js";
import { limitHint, modelLabel, models, programOf, schemaHolder, skills } from "./choices.js";

const IDEAS = ["What is this folder?", "Which tests fail, and why?", "What changed since yesterday?"];

/** @returns {import("../core/router.js").Page} */
export function page() {
  const chosenModel = signal(store.read("new model", ""));
  const mode = signal("");
  const chosenSkill = signal(/** @type {string | null} */ (store.read("new skill", null)));
  // What was chosen for the last chat, as far as it is there by now; until that is known, as it was.
  const model = computed(() => {
    const { models: all, defaultEngine } = models.value;
    return defaultEngine.engine && !all.some(({ name }) => name === chosenModel.value) ? "" : chosenModel.value;
  });
  const skill = computed(() => {
    const { skills: all, default: usual } = skills.value;
    const wanted = chosenSkill.value;
    const name = !usual || wanted === "none" || all.some((one) => one.name === wanted) ? wanted : usual;
    return name === "none" ? "" : name ?? "";
  });
  const apart = signal(store.read("new work tree", false));
  const schema = schemaHolder();
  let here = true;

  /** @param {string} text @param {string} notBefore */
  async function begin(text, notBefore) {
    store.write("new model", model.peek() || null);
    store.write("new skill", chosenSkill.peek());
    store.write("new work tree", apart.peek() || null);
    const created = await send({
      chatId: null, text, model: model.peek(), skill: skill.peek(), mode: mode.peek(), worktree: apart.peek(), notBefore,
      ...schema.take(),
    });
    if (here && created?.chatId && location.pathname === link("/")) await navigate(`/${created.chatId}`);
    here = false;
  }

  const writer = composer({
    draft: "new", placeholder: "Describe the task…", label: "The first prompt", autofocus: true,
    onsend: (text, _, notBefore) => void begin(text, notBefore),
    tools: [
      menuButton({ class: "btn plain small", "aria-label": () => `Model: ${modelLabel(model.value, mode.value)}` },
        [el("span", { class: "clip" }, () => modelLabel(model.value, mode.value)), icon("down")],
        async () => {
          const { keepMode, modeItems, modelItems } = await import("./choice_menus.js");
          return [
            ...modelItems(model.peek(), (name) => {
              mode.value = keepMode(name, mode.peek());
              chosenModel.value = name;
            }),
            ...modeItems(model.peek(), mode.peek(), (name) => (mode.value = name)), null, schema.item(),
          ];
        }),
      menuButton({ class: "btn plain small", "aria-label": "Skill", hidden: () => !skills.value.skills.length },
        [el("span", { class: "clip" }, () => skill.value || "No skill"), icon("down")],
        async () => (await import("./choice_menus.js")).skillItems(skill.peek(),
          (name) => (chosenSkill.value = (name || "none") === skills.peek().default ? null : name || "none"))),
      el("button", { class: "btn plain small", type: "button", "aria-label": "Work tree",
        title: "Work on a branch and in a folder of its own, apart from the workspace",
        "aria-pressed": () => String(apart.value), onclick: () => (apart.value = !apart.peek()) },
        () => icon(apart.value ? "check" : "branch"), el("span", { class: "not-phone" }, "Work tree")),
      schema.button,
      limitHint(() => programOf(model.value).limits),
    ],
  });
  // Browsers heed the attribute only while the document loads.
  if (matchMedia("(hover: hover)").matches) queueMicrotask(() => writer.input.focus());
  const body = el("div", { class: "frame" },
    el("header", { class: "bar only-phone" },
      el("a", { class: "btn plain icon", href: link("/chats"), "aria-label": "Back to the chats" }, icon("back")),
      el("span", { class: "grow" })),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "New chat" },
      el("div", { class: "begin" },
        el("h1", null, "What should the agent do?"),
        writer.node,
        () => outbox.value.filter((one) => one.chatId === null).map((one) => el("div", { class: "toast" },
          el("span", { class: "grow" }, one.text, el("small", null, one.failed || one.hindered || "Waits until agentd answers")),
          one.failed ? el("button", { class: "btn small", onclick: () => sendAgain(one.key) }, "Retry") : null,
          el("button", { class: "btn plain small", onclick: () => discard(one.key) }, "Discard"))),
        may("manager")
          ? el("div", { class: "ideas" },
            IDEAS.map((idea) => el("button", { class: "btn small", onclick: () => writer.insert(idea) }, idea)))
          : null)));
  return { title: "New chat", body };
}
