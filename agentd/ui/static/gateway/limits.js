/** What keys and budgets have in common: limits with their bars, warnings, and raises that end by themselves. */

import { call, remove } from "../core/api.js";
import { el } from "../core/el.js";
import { count } from "../core/counts.js";
import { usd } from "../core/money.js";
import { fullTime, now } from "../core/time.js";
import { openDialog } from "../parts/dialog.js";
import { toast } from "../parts/toast.js";
import { sendForm } from "../settings/frame.js";
import { resourceForm } from "./form.js";
import { windowWords } from "./overview_data.js";
import { act } from "./resource_list.js";

/**
 * @typedef {import("../api.d.ts").LimitStatusView} LimitStatus
 * @typedef {import("./form.js").Field} Field
 * @typedef {{ limits: import("../api.d.ts").KeyLimitsView, modelLimits?: Record<string, import("../api.d.ts").KeyLimitsView>,
 *   raised: import("../api.d.ts").LimitRaiseView | null }} Limited
 */

export const COUNTS = /** @type {Record<string, string>} */ ({
  requestsPerMinute: "requests a minute", tokensPerMinute: "tokens a minute", parallel: "at the same time",
});

/** @type {readonly Field[]} */
export const LIMIT_FIELDS = [
  { name: "limits.day", label: "USD a day", kind: "money", placeholder: "no limit" },
  { name: "limits.week", label: "USD a week", kind: "money", placeholder: "no limit", hint: "From Monday on." },
  { name: "limits.month", label: "USD a month", kind: "money", placeholder: "no limit" },
  { name: "limits.total", label: "USD in total", kind: "money", placeholder: "no limit", hint: "Never reset." },
  { name: "limits.requestsPerMinute", label: "Requests a minute", kind: "number", placeholder: "no limit" },
  { name: "limits.tokensPerMinute", label: "Tokens a minute", kind: "number", placeholder: "no limit" },
  { name: "limits.parallel", label: "Requests at the same time", kind: "number", placeholder: "no limit" },
  { name: "warnAt", label: "Warn at a share of", kind: "number", placeholder: "never",
    hint: "Of each limit in USD, such as 0.8: alerts are sent, nothing is refused." },
  { name: "softLimits.day", label: "Warn from, a day", kind: "money", placeholder: "no warning", hint: "USD, in place of the share." },
  { name: "softLimits.week", label: "Warn from, a week", kind: "money", placeholder: "no warning" },
  { name: "softLimits.month", label: "Warn from, a month", kind: "money", placeholder: "no warning" },
  { name: "softLimits.total", label: "Warn from, in total", kind: "money", placeholder: "no warning" },
];

/** @type {readonly import("./row_editor.js").Column[]} */
const MODEL_LIMITS = [
  { name: "model", label: "Model", required: true, placeholder: "gpt-*" },
  { name: "day", label: "USD/day", kind: "money" }, { name: "week", label: "USD/week", kind: "money" },
  { name: "month", label: "USD/month", kind: "money" }, { name: "total", label: "USD in total", kind: "money" },
  { name: "requestsPerMinute", label: "Requests/min", kind: "number" },
  { name: "tokensPerMinute", label: "Tokens/min", kind: "number" }, { name: "parallel", label: "At once", kind: "number" },
];

/** @type {Field} */
export const MODEL_LIMITS_FIELD = {
  name: "modelLimits", label: "Limits per model", kind: "rows", wide: true,
  rows: { columns: MODEL_LIMITS, add: "Add a model", keyed: true },
  hint: "Beside the key’s own. The model’s name, or a pattern; what is empty has no limit.",
};

const DAY = 86_400_000;

/** @param {Pick<LimitStatus, "limit" | "used" | "reserved">} one */
export function usedShare({ limit, used, reserved }) {
  return limit > 0 ? (used + reserved) / limit : 1;
}

/**
 * The limit that is used most.
 * @template {LimitStatus} Limit
 * @param {readonly Limit[]} limits
 */
export function nearestLimit(limits) {
  return [...limits].filter((one) => one.limit > 0 || one.used >= one.limit).sort((one, other) => usedShare(other) - usedShare(one))[0];
}

/**
 * What holds beside a key's own limits, in words: of a model, its owner or a tag.
 * @param {Pick<import("../api.d.ts").FurtherLimitsView, "scope" | "name">} further
 */
export function furtherWords({ scope, name }) {
  return scope === "model" ? name : `${scope} ${name}`;
}

/** @param {LimitStatus} one */
export function limitWords({ name, used, limit, reserved }) {
  if (name in COUNTS) return `${count(used)} of ${count(limit)} ${COUNTS[name]}`;
  return `${usd(used)} of ${usd(limit)} ${windowWords(name)}${reserved ? ` · ${usd(reserved)} reserved` : ""}`;
}

/**
 * Chips for limits that warn or are raised.
 * @param {readonly import("../api.d.ts").SoftLimitView[]} soft
 * @param {Limited["raised"]} raised
 */
export function limitChips(soft, raised) {
  const passed = soft.filter((one) => one.passed)
    .map((one) => `${usd(one.used)} of ${usd(one.amount)} ${windowWords(one.name)}`);
  return [
    passed.length ? el("span", { class: "chip need", title: passed.join(", ") }, "warns") : null,
    isRaised(raised)
      ? el("span", { class: "chip", title: raised.by ? `By ${raised.by}` : null }, `raised until ${fullTime(raised.until)}`)
      : null,
  ];
}

/**
 * @param {Limited["raised"]} raised
 * @returns {raised is NonNullable<Limited["raised"]>}
 */
function isRaised(raised) {
  return raised !== null && Date.parse(raised.until) > now();
}

/**
 * The items of a menu that raise limits for a while, and end that.
 * @param {Limited} limited
 * @param {string} path
 * @param {string} name
 * @param {() => void} reload
 * @returns {import("../parts/menu.js").Items}
 */
export function raiseItems(limited, path, name, reload) {
  const { raised } = limited;
  return [
    raisableFields(limited).length > 0 && {
      label: "Raise for a while", icon: "gauge", note: "The old limits then hold again by themselves",
      changes: "administrator", onselect: () => void raiseLimits(path, name, limited, reload),
    },
    isRaised(raised) && {
      label: "End the raise", icon: "close", changes: "administrator",
      onselect: () => void act(() => remove(`${path}/raise`), `The old limits of ${name} hold again`, reload),
    },
  ];
}

/**
 * A field for each limit that is set; those of a model by its place, for its name may have dots.
 * @param {Limited} limited
 * @returns {Field[]}
 */
function raisableFields({ limits, modelLimits = {} }) {
  /** @type {(prefix: string, of: string, limits: import("../api.d.ts").KeyLimitsView) => Field[]} */
  const fieldsOf = (prefix, of, given) => LIMIT_FIELDS.flatMap(({ name, label, kind = "text" }) => {
    const [group, limit = ""] = name.split(".");
    const amount = group === "limits" ? given[/** @type {keyof typeof given} */ (limit)] : null;
    if (amount === null || amount === undefined) return [];
    return [{ name: `${prefix}.${limit}`, label: of ? `${of}: ${label}` : label, kind, placeholder: `stays ${amount}` }];
  });
  return [
    ...fieldsOf("limits", "", limits),
    ...Object.entries(modelLimits).flatMap(([model, given], place) => fieldsOf(`models.${place}`, model, given)),
  ];
}

/**
 * @param {string} path
 * @param {string} name
 * @param {Limited} limited
 * @param {() => void} reload
 */
function raiseLimits(path, name, limited, reload) {
  const names = Object.keys(limited.modelLimits ?? {});
  /** @type {Field[]} */
  const fields = [{ name: "until", label: "Until", kind: "moment", required: true }, ...raisableFields(limited)];
  return openDialog(`Raise limits of ${name}`, (close) => {
    const form = resourceForm(fields, { until: new Date(now() + DAY).toISOString() });
    const send = async () => {
      const { models, ...body } = form.all();
      const raised = Object.entries(models ?? {}).map(([place, limits]) => [names[Number(place)], limits]);
      await call("POST", `${path}/raise`, { body: { ...body, ...(raised.length ? { models: Object.fromEntries(raised) } : {}) } });
      close();
      toast(`The limits of ${name} are raised`);
      reload();
    };
    return [sendForm({ action: "Raise", oncancel: () => close(), send }, form.node)];
  }, { wide: true });
}
