/** Secrets that were found in requests: by day, access key and rule; each leads to its requests. */

import { address, get } from "../core/api.js";
import { el, icon } from "../core/el.js";
import { count, counted } from "../core/counts.js";
import { link } from "../core/router.js";
import { computed } from "../core/signals.js";
import { barList } from "../parts/chart.js";
import { emptyState } from "../parts/frame.js";
import { following, forAdministrators, gatewayFrame, part, requestsLink, shown } from "./frame.js";
import { spanChooser, spanOf } from "./range.js";
import { filterPills, filtersOf } from "./report_filters.js";
import { learnZone } from "./today.js";

/** @typedef {{ day: string, key: string, title: string, rule: string, count: number }} Leak */

const MOST = 1000;
const FILTERED = /** @type {const} */ (["key", "owner", "tag"]);

export const page = forAdministrators("Leaks", () => {
  const span = spanOf(30);
  const narrowed = filtersOf(FILTERED);
  const asked = computed(() => ({ from: span.value.from, to: span.value.to, ...narrowed.value, limit: MOST }));
  const reading = following(async (abort) => {
    const found = await get("/api/agent/leaks", asked.peek(), abort);
    learnZone(found.zone);
    return found;
  }, { every: 5000, asked: () => asked.value });
  return {
    title: "Leaks",
    body: gatewayFrame({ title: "Leaks", actions: [
      el("a", { class: "btn", download: "", href: () => address("/api/agent/leaks", { ...asked.value, format: "csv" }) },
        icon("download"), "CSV"),
    ] },
      el("div", { class: "choose" }, filterPills(FILTERED, narrowed), el("span", { class: "grow" }), spanChooser(span, 30)),
      shown(reading, (latest) => el("div", { class: "loaded" }, part(() => latest.value, content)))),
  };
});

/** @param {{ items: Leak[], total: number, next: string }} found */
function content({ items, total, next }) {
  if (!items.length) {
    return emptyState("shield", "No secrets were found in these days",
      "What programs send is searched by the rules, and secrets are hidden before a supplier sees them.",
      el("a", { class: "btn", href: link("/gateway/secrets") }, "Rules and dry run"));
  }
  const sum = (/** @type {(leak: Leak) => string} */ nameOf) => {
    /** @type {Map<string, number>} */
    const found = new Map();
    for (const leak of items) found.set(nameOf(leak), (found.get(nameOf(leak)) ?? 0) + leak.count);
    return [...found].map(([name, value]) => ({ name, value })).sort((one, other) => other.value - one.value).slice(0, 8);
  };
  return [
    el("div", { class: "two even" },
      el("section", { class: "card" }, el("header", null, el("h2", null, "By rule")), barList(sum((leak) => leak.rule), count)),
      el("section", { class: "card" }, el("header", null, el("h2", null, "By key")),
        barList(sum((leak) => leak.title || leak.key || "no known key"), count))),
    el("section", { class: "card", "aria-label": "Findings" },
      el("header", null, el("h2", null, "Findings"), el("small", { class: "num" }, counted(total, "secret")),
        next ? el("small", null, `the first ${count(MOST)} rows`) : null),
      el("div", { class: "table", tabindex: 0, role: "region", "aria-label": "Findings as a table" }, el("table", { class: "fold" },
        el("thead", null, el("tr", null, ["Day", "Key", "Rule"].map((head) => el("th", { scope: "col" }, head)),
          el("th", { scope: "col", class: "r" }, "Found"))),
        el("tbody", null, [...items].reverse().map((leak) => el("tr", null,
          el("td", { class: "num" }, leak.day),
          el("td", { class: "r-phone" }, leak.key
            ? el("a", { class: "ell", href: link(`/gateway/keys/${leak.key}`) }, el("bdi", null, leak.title || leak.key))
            : "no known key"),
          el("td", null, leak.rule),
          el("td", { class: "r" }, el("a", {
            href: requestsLink({ ...(leak.key ? { key: leak.key } : {}), rule: leak.rule, from: leak.day, to: leak.day }),
            "aria-label": `${count(leak.count)} by ${leak.rule} on ${leak.day}: the requests`,
          }, count(leak.count), el("span", { class: "only-phone" }, " found"))))))))),
  ];
}
