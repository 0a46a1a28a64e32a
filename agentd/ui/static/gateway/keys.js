/** The access keys: what each has spent, how far its nearest limit is used, and when that will be used up. */

import { get } from "../core/api.js";
import { dot, el, icon } from "../core/el.js";
import { usd } from "../core/money.js";
import { link, navigate, query, setQuery } from "../core/router.js";
import { agoTime, fullTime, now } from "../core/time.js";
import { emptyState } from "../parts/frame.js";
import { menuButton } from "../parts/menu.js";
import { card } from "../settings/frame.js";
import { following, forAdministrators, gatewayFrame, groupFacts, limitBar, part, requestsLink, shown } from "./frame.js";
import { createKey, editKey, reissueKey } from "./key_dialogs.js";
import { COUNTS, furtherWords, limitChips, limitWords, nearestLimit, raiseItems } from "./limits.js";
import { forecast, windowWords } from "./overview_data.js";
import { resourceList, usualItems } from "./resource_list.js";
import { learnZone } from "./today.js";

/**
 * @typedef {import("../api.d.ts").AccessKeyView} AccessKey
 * @typedef {import("./overview_data.js").Burn} Burn
 */

const AGAIN = 3000;

const listPage = forAdministrators("Access keys", () => {
  const list = resourceList({
    resource: "keys", noun: "keys", every: AGAIN, events: ["modelsUpdate", "gatewayConfigUpdate"], row: keyRow, batch: {
      noun: "key", tagged: true, id: (/** @type {any} */ one) => one.id, title: (/** @type {any} */ one) => one.name,
    },
    empty: () => emptyState("key", "No access keys yet",
      "A key lets a program call models through the gateway, with limits of what it may spend.",
      el("button", { class: "btn main", changes: "administrator", onclick: create }, icon("plus"), "New key")),
  });
  function create() {
    void createKey(list.reload);
  }
  if (query.peek().get("new")) {
    setQuery({ new: null });
    queueMicrotask(create);
  }
  return {
    title: "Access keys",
    body: gatewayFrame({ title: "Access keys", narrow: true, actions: [
      el("button", { class: "btn main", changes: "administrator", onclick: create }, icon("plus"), "New key"),
    ] },
      card({ title: "Access keys",
        text: "Each opens the model gateway for one program or person. Spending counts and limits hold across restarts." }, list.node)),
  };

  /** @param {AccessKey} key @returns {HTMLElement} */
  function keyRow(key) {
    const further = key.furtherLimits.flatMap((one) => one.limitUsage.map((limit) => ({ ...limit, of: furtherWords(one) })));
    const nearest = nearestLimit([...key.limitUsage.map((limit) => ({ ...limit, of: "" })), ...further]);
    return el("li", { class: "key-row" },
      el("span", { class: "name" }, stateDot(key),
        el("a", { href: link(`/gateway/keys/${key.id}`) }, el("b", null, el("bdi", null, key.name))),
        el("code", null, `…${key.last4}`), chips(key)),
      el("small", null,
        el("a", { href: requestsLink({ key: key.id }) }, `${usd(key.spent.day)} today · ${usd(key.spent.month)} this month`),
        key.models ? ` · ${key.models.join(", ") || "no models"}` : ""),
      nearest
        ? el("div", { class: "row-limit" }, limitBar(nearest),
          el("small", null, nearest.of ? el("bdi", null, `${nearest.of}: `) : null, limitWords(nearest)))
        : null,
      el("span", { class: "ends" }, menuButton({ class: "btn plain icon small", "aria-label": `Actions for ${key.name}` }, [icon("more")],
        () => keyItems(key, list.reload))));
  }
});

const onePage = forAdministrators("Access key", (params) => {
  const at = `/api/agent/keys/${encodeURIComponent(params["id"] ?? "")}`;
  const reading = following(async (abort) => {
    const key = /** @type {AccessKey} */ (await get(at, {}, abort));
    learnZone(key.spent.zone);
    const burns = await get("/api/agent/reports/limits", { name: key.name, limit: 200 }, abort);
    return { key, burns: /** @type {Burn[]} */ (burns.items.filter((/** @type {Burn} */ burn) => burn.key === key.id)) };
  }, { every: AGAIN, events: ["gatewayConfigUpdate"] });
  const reload = () => void reading.reload();
  return {
    title: () => reading.value.value?.key.name ?? "Access key",
    body: gatewayFrame({ title: () => reading.value.value?.key.name ?? "Access key", back: "/gateway/keys", narrow: true },
      shown(reading, (latest) => el("div", { class: "loaded" },
        part(() => latest.value.key, (key) => aboutCard(key, reload)),
        part(() => latest.value, ({ key, burns }) => limitsCard(key, burns, reload))))),
  };
});

export const page = (/** @type {Record<string, string>} */ params) => (params["id"] ? onePage : listPage)(params);

/** @param {AccessKey} key */
function isExpired(key) {
  return key.expires !== null && Date.parse(key.expires) <= now();
}

/** @param {AccessKey} key */
function stateDot(key) {
  const used = [key, ...key.furtherLimits].flatMap((one) => one.limitUsage).some((one) => one.used >= one.limit && !(one.name in COUNTS));
  return dot(!key.enabled || isExpired(key) ? "off" : used ? "bad" : "good");
}

/** @param {AccessKey} key */
function chips(key) {
  return [
    key.enabled ? null : el("span", { class: "chip" }, "disabled"),
    isExpired(key) ? el("span", { class: "chip" }, "expired") : null,
    key.previousUntil && Date.parse(key.previousUntil) > now()
      ? el("span", { class: "chip", title: fullTime(key.previousUntil) }, "old secret still good")
      : null,
    limitChips([key, ...key.furtherLimits].flatMap((one) => one.softUsage), key.raised),
  ];
}

/**
 * @param {AccessKey} key
 * @param {() => void} reload
 * @param {() => void} [gone]
 * @returns {import("../parts/menu.js").Items}
 */
function keyItems(key, reload, gone) {
  return [
    { label: "Edit and set limits", icon: "pencil", changes: "administrator", onselect: () => void editKey(key.id, key.name, reload) },
    { label: "Its requests", icon: "rows", onselect: () => void navigate(`/gateway/requests?key=${key.id}`) },
    { label: "Reissue", icon: "reload", note: "Another secret; the old one may stay good for a while", changes: "administrator",
      onselect: () => void reissueKey(key, reload) },
    ...raiseItems(key, `/api/agent/keys/${key.id}`, key.name, reload),
    null,
    ...usualItems({ path: `/api/agent/keys/${key.id}`, name: key.name, enabled: key.enabled, reload, copies: false,
      ...(gone ? { gone } : {}),
      removeText: "It is refused from the next request on, and its running requests end. Its requests stay in the log." }),
  ];
}

/** @param {AccessKey} key @param {() => void} reload */
function aboutCard(key, reload) {
  const { day, week, month, total } = key.spent;
  /** @type {[string, import("../core/el.js").Single][]} */
  const facts = [
    ["Key", el("code", null, `sk-agentd-${key.id}-…${key.last4}`)],
    ["Made", `${agoTime(key.created)}${key.createdBy ? ` by ${key.createdBy}` : ""}`],
    ["Expires", key.expires ? fullTime(key.expires) : "never"],
    ["Models", key.models ? key.models.join(", ") || "none" : "all"],
    ["Addresses", key.addresses ? key.addresses.join(", ") || "none" : "all"],
    ["Channels", key.channels ? key.channels.join(", ") || "none" : "all"],
    ...groupFacts(key),
    ["Bodies", key.keepBodies ? "kept for some days, secrets hidden" : "not kept"],
    ["Spent", el("a", { href: requestsLink({ key: key.id }) },
      `${usd(day)} today · ${usd(week)} this week · ${usd(month)} this month · ${usd(total)} in all`)],
    ...(key.previousUntil && Date.parse(key.previousUntil) > now()
      ? [/** @type {[string, string]} */ (["Old secret", `good until ${fullTime(key.previousUntil)}`])]
      : []),
  ];
  return card({ title: "Access key", actions: [
    el("a", { class: "btn", href: requestsLink({ key: key.id }) }, icon("rows"), "Its requests"),
    el("button", { class: "btn", changes: "administrator", onclick: () => void editKey(key.id, key.name, reload) }, icon("pencil"), "Edit"),
    menuButton({ class: "btn plain icon", "aria-label": `Actions for ${key.name}` }, [icon("more")],
      () => keyItems(key, reload, () => void navigate("/gateway/keys"))),
  ] }, el("div", { class: "inside" }, el("div", { class: "name" }, chips(key)),
    el("dl", { class: "pair" }, facts.map(([name, value]) => [el("dt", null, name), el("dd", null, value)]).flat())));
}

/**
 * @param {import("./limits.js").LimitStatus} one
 * @param {Burn} [burn]
 * @param {import("../api.d.ts").FurtherLimitsView} [further] what it holds for, if it is not the key alone
 */
function limitRow(one, burn, further) {
  return el("li", { class: "key-row" },
    el("span", { class: "name" }, el("b", null, one.name in COUNTS ? COUNTS[one.name] : `USD ${windowWords(one.name)}`),
      further ? el("span", { class: "chip", title: furtherWords(further) }, el("bdi", null, furtherWords(further))) : null,
      further?.budget ? el("a", { href: link(`/gateway/budgets?name=${encodeURIComponent(further.budget)}`) }, "Budget") : null),
    el("div", { class: "row-limit" }, limitBar(one), el("small", null, limitWords(one))),
    burn ? el("small", null, forecast(burn)) : null);
}

/** @param {AccessKey} key @param {Burn[]} burns @param {() => void} reload */
function limitsCard(key, burns, reload) {
  return card({ title: "Limits",
    text: `Days and months begin in ${key.spent.zone}. What requests under way can cost at most is reserved.` },
    key.limitUsage.length || key.furtherLimits.length
      ? el("ul", { class: "rows" },
        key.limitUsage.map((one) => limitRow(one, burns.find((line) => line.scope === "key" && line.window === one.name))),
        key.furtherLimits.flatMap((further) => {
          const of = burns.filter((line) => line.scope === further.scope && line.model === further.name);
          return further.limitUsage.map((one) => limitRow(one, of.find((line) => line.window === one.name), further));
        }))
      : emptyState("gauge", "No limits", "The key may spend without end. A limit stops a runaway program before it gets expensive.",
        el("button", { class: "btn", changes: "administrator", onclick: () => void editKey(key.id, key.name, reload) }, "Set limits")));
}
