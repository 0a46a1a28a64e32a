/** The messenger bots, for administrators: they are configured only here and in bots.yml. */

import { get, may, post, put, remove } from "../core/api.js";
import { dot, el, icon } from "../core/el.js";
import { counted } from "../core/counts.js";
import { link } from "../core/router.js";
import { confirm, openDialog } from "../parts/dialog.js";
import { emptyState, loaded } from "../parts/frame.js";
import { menuButton } from "../parts/menu.js";
import { toast, toastError } from "../parts/toast.js";
import { beginEdit } from "./edits.js";
import { card, failureLine, follow, labelled, listView, longList, sendForm, settingsPage, whoMay } from "./frame.js";

/**
 * @typedef {{ id: string, title: string, enabled: boolean, running: boolean, pollingError: string | null, token: string,
 *   users: number[], baseUrl: string, model: string, skill: string, chatCount: number,
 *   latestChats: { chatId: number, title: string }[] }} Bot
 */

/** @returns {import("../core/router.js").Page} */
export function page() {
  if (!may("administrator")) return settingsPage("Bots", card({ title: "Bots" }, whoMay("administrator")));
  const view = listView();
  const read = loaded(() => get("/api/bots"), show);
  const reload = () => void read.reload();
  follow(["botsUpdate", "chatDeleted"], reload);
  return settingsPage("Bots", card({
    title: "Bots", text: "A Telegram bot brings chats and questions to the people that it obeys. Tokens are in bots.yml, and never shown.",
    actions: [addButton()],
  }, read.node));

  function addButton() {
    return el("button", { class: "btn main", changes: "administrator", onclick: () => void edit(null, reload) }, icon("plus"), "Add a bot");
  }

  /** @param {{ bots: Bot[], problems: string[] }} found */
  function show({ bots, problems }) {
    return el("div", null,
      problems.map((problem) => el("div", { class: "inside" }, failureLine(new Error(problem)))),
      bots.length
        ? longList(bots, (bot) => `${bot.id} ${bot.title}`, botRow, "bots", view)
        : emptyState("bot", "No bots yet",
          "Get a token from @BotFather in Telegram, and your own number from @userinfobot: a bot obeys only the people that you name."));
  }

  /** @param {Bot} bot */
  function botRow(bot) {
    const facts = [
      bot.id, `token ${bot.token}`, bot.users.length ? `obeys ${counted(bot.users.length, "person", "people")}` : "obeys nobody yet",
      bot.model && `model ${bot.model}`, bot.skill !== "none" && `skill ${bot.skill}`,
    ].filter(Boolean).join(" · ");
    return el("li", null,
      el("span", { class: "name" }, el("b", null, el("bdi", null, bot.title))),
      el("small", null, facts),
      linkedChats(bot),
      bot.pollingError ? el("small", { class: "bad" }, bot.pollingError) : null,
      el("span", { class: "ends" }, stateOf(bot),
        menuButton({ class: "btn plain icon small", "aria-label": `Actions for ${bot.title}` }, [icon("more")], () => [
          { label: "Check the token", icon: "check", note: "Asks Telegram whose it is", changes: "administrator",
            onselect: () => void check(bot) },
          { label: "Edit", icon: "pencil", changes: "administrator", onselect: () => void edit(bot, reload) },
          { label: bot.enabled ? "Switch off" : "Switch on", icon: bot.enabled ? "pause" : "play", changes: "administrator",
            onselect: () => void turn(bot) },
          null,
          { label: "Delete", icon: "trash", danger: true, changes: "administrator", onselect: () => void drop(bot) },
        ])));
  }

  /** @param {Bot} bot */
  async function turn(bot) {
    try {
      await put(at(bot), { enabled: !bot.enabled });
      toast(`${bot.title} is switched ${bot.enabled ? "off" : "on"}`);
    } catch (error) {
      toastError(error, () => void turn(bot));
    }
    reload();
  }

  /** @param {Bot} bot */
  async function drop(bot) {
    const text = "Its token is removed; its chats stay.";
    if (!await confirm({ title: `Delete ${bot.title}?`, text, action: "Delete", danger: true })) return;
    try {
      await remove(at(bot));
    } catch (error) {
      toastError(error, () => void drop(bot));
    }
    reload();
  }
}

/** @param {Bot} bot */
function linkedChats({ chatCount, latestChats }) {
  if (!chatCount) return el("small", null, "No chat is linked to it yet");
  return el("small", { class: "linked" }, `${counted(chatCount, "linked chat")}: `,
    latestChats.map(({ chatId, title }, index) => [index ? ", " : "", el("a", { href: link(`/${chatId}`) }, el("bdi", null, title))]),
    chatCount > latestChats.length ? " …" : "");
}

/** @param {Bot} bot */
async function check(bot) {
  try {
    const { ok, account, problem } = await post(`${at(bot)}/check`);
    const again = () => void check(bot);
    if (ok) toast(`Telegram knows the token of ${bot.title}`, { details: `It is ${account}.` });
    else toast(`The token of ${bot.title} does not work`, { kind: "bad", details: problem, action: "Check again", onaction: again });
  } catch (error) {
    toastError(error, () => void check(bot));
  }
}

/** @param {Bot} bot */
function stateOf(bot) {
  if (!bot.enabled) return el("span", { class: "state" }, dot("off"), "Off");
  if (bot.pollingError) return el("span", { class: "state bad" }, dot("bad"), "Failing");
  return bot.running
    ? el("span", { class: "state good" }, dot("good"), "Running")
    : el("span", { class: "state need" }, dot("need"), "Starting");
}

/** @param {Bot} bot */
function at(bot) {
  return `/api/bots/${encodeURIComponent(bot.id)}`;
}

/**
 * @param {Bot | null} bot null: a new one
 * @param {() => void} done
 */
function edit(bot, done) {
  return openDialog(bot ? `Edit ${bot.title}` : "Add a bot", (close) => {
    const plain = { class: "input", autocomplete: "off", autocapitalize: "none", spellcheck: "false" };
    const id = el("input", { ...plain, name: "id", value: bot?.id ?? "", required: true, disabled: Boolean(bot), autofocus: !bot,
      pattern: "[a-z0-9][a-z0-9_\\-]{0,31}" });
    const title = el("input", { ...plain, name: "title", value: bot && bot.title !== bot.id ? bot.title : "", maxlength: 100 });
    const token = el("input", { ...plain, name: "token", required: !bot, placeholder: bot ? `${bot.token}: stays` : "", maxlength: 4096 });
    const users = el("input", { ...plain, name: "users", value: (bot?.users ?? []).join(", "), inputmode: "numeric", pattern: "[0-9, ]*" });
    const model = el("input", { ...plain, name: "model", value: bot?.model ?? "", maxlength: 1000, placeholder: "the default" });
    const skill = el("input", { ...plain, name: "skill", value: bot?.skill ?? "none", maxlength: 1000 });
    const server = bot?.baseUrl ?? "https://api.telegram.org";
    const baseUrl = el("input", { ...plain, name: "baseUrl", value: server, type: "url", maxlength: 1000 });
    const read = () => ({
      title: title.value.trim() || id.value, users: users.value.split(/[\s,]+/).filter(Boolean).map(Number),
      skill: skill.value.trim() || "none", baseUrl: baseUrl.value.trim(),
      ...(token.value.trim() ? { token: token.value.trim() } : {}),
      ...(model.value.trim() !== (bot?.model ?? "") ? { model: model.value.trim() } : {}),
    });
    const merge = beginEdit(read(), bot ?? {});
    const send = async () => {
      if (bot) {
        const { bots } = await get("/api/bots");
        await put(at(bot), merge(read(), bots.find((now) => now.id === bot.id) ?? bot));
      } else await post("/api/bots", { id: id.value, ...read() });
      close();
      done();
    };
    return [sendForm({ action: bot ? "Save" : "Add", oncancel: () => close(), send },
      el("div", { class: "form-grid" },
        labelled("Id", id, "Lower-case letters, digits, - and _."), labelled("Name", title),
        labelled("Token", token, "The token from @BotFather, or env:NAME, or file:/PATH."),
        labelled("People", users, "Their Telegram user numbers, separated by commas."),
        labelled("Model", model), labelled("Skill", skill),
        labelled("Server", baseUrl, "With another server, the token must be entered again.")))];
  }, { wide: true });
}
