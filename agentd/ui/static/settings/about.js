/** What runs here: the version, and the engines with theirs. */

import { get } from "../core/api.js";
import { dot, el, icon } from "../core/el.js";
import { link } from "../core/router.js";
import { loaded } from "../parts/frame.js";
import { tightWindows, windowsText } from "../parts/usage_limits.js";
import { card, follow, settingsPage } from "./frame.js";

const ENGINES = /** @type {Record<string, string>} */ ({
  "offline": "Built in, without a model", "native": "Built in, with a model",
  "codex": "Codex", "claude-code": "Claude Code", "acp": "An ACP agent",
});

/** @returns {import("../core/router.js").Page} */
export function page() {
  const about = loaded(() => get("/api/about"), show);
  follow(["engineUpdate"], () => void about.reload());
  return settingsPage("About", about.node, card({ title: "For programs" }, el("div", { class: "inside" }, el("dl", { class: "pair" },
    el("dt", null, "The API, described"), el("dd", null, el("a", { href: link("/api/openapi.json") }, "openapi.json"), " (OpenAPI 3.1)"),
    el("dt", null, "For monitoring"),
    el("dd", null, el("a", { href: link("/metrics") }, "metrics"), " (Prometheus), ", el("a", { href: link("/healthz") }, "healthz"))))));

  /** @param {any} found */
  function show(found) {
    return el("div", { class: "loaded" },
      card({ title: `agentd ${found.version}` }, el("div", { class: "inside" }, el("dl", { class: "pair" },
        el("dt", null, "Python"), el("dd", null, found.python),
        el("dt", null, "Licence"), el("dd", null, `${found.licence}: use, change and share it freely`)))),
      card({
        title: "Engines", text: "The engines that run prompts, and whether each can start now.",
        actions: [el("button", { class: "btn", onclick: () => void about.reload() }, icon("reload"), "Look again")],
      }, el("ul", { class: "rows" }, found.engines.map(engineRow))));
  }
}

/** @param {any} engine */
function engineRow(engine) {
  const { limits } = engine.program;
  return el("li", null,
    el("span", { class: "name" }, el("b", null, ENGINES[engine.engine] ?? engine.engine), el("code", null, engine.engine),
      engine.version ? el("span", { class: "chip" }, engine.version) : null),
    engine.where ? el("small", null, el("code", null, engine.where)) : null,
    engine.models.length ? el("small", null, `Models: ${engine.models.join(", ")}`) : null,
    engine.problem ? el("small", null, engine.problem) : null,
    limits.length ? el("small", { class: tightWindows(limits).length ? "need" : "" }, `Usage limits: ${windowsText(limits)}`) : null,
    el("span", { class: "ends" }, engine.problem
      ? el("span", { class: "state" }, dot("off"), engine.models.length ? "Not ready" : "Not found")
      : el("span", { class: "state good" }, dot("good"), "Ready")));
}
