/**
 * Every page: its address, its module, and its place in the navigation.
 *
 * To add a page: a module with `export function page(params)` in the folder of its area, and a line
 * here. The daemon answers the addresses that `agentd/ui/pages.py` lists.
 */

/** @typedef {import("./core/api.js").Role} Role */
/**
 * @typedef {{ area: "agent" | "settings" | "gateway", label: string, icon: string, group?: string,
 *   role?: Role, words?: string, tab?: string, within?: string }} Place
 *   `within`: the page among whose tabs it stands, instead of the navigation; `tab`: its name there
 */
/** @typedef {import("./core/router.js").Route & { place?: Place }} PageRoute */

/** @type {readonly PageRoute[]} */
export const PAGES = [
  { path: "/", load: () => import("./agent/new_chat.js") },
  { path: "/:chatId", load: () => import("./agent/chat.js") },
  { path: "/chats", load: () => import("./agent/chats_page.js") },
  { path: "/inbox", load: () => import("./agent/inbox.js"),
    place: { area: "agent", label: "Needs you", icon: "inbox", words: "inbox questions approvals" } },
  { path: "/workspace/changes", load: () => import("./workspace/changes.js"),
    place: { area: "agent", label: "Workspace", icon: "folder", tab: "Changes", words: "changes diff stage commit git" } },
  { path: "/workspace/history", load: () => import("./workspace/history.js"),
    place: { area: "agent", label: "History", icon: "history", within: "/workspace/changes", words: "commits log git" } },
  { path: "/workspace/files", load: () => import("./workspace/files.js"),
    place: { area: "agent", label: "Files", icon: "file", within: "/workspace/changes", words: "browse search folder" } },
  { path: "/workspace/builds", load: () => import("./workspace/builds.js"),
    place: { area: "agent", label: "Builds", icon: "build", within: "/workspace/changes",
      words: "compile errors warnings auto-fix output" } },
  { path: "/workspace/deployments", load: () => import("./workspace/deployments.js"),
    place: { area: "agent", label: "Deployments", icon: "rocket", within: "/workspace/changes",
      words: "services start stop restart output" } },
  { path: "/chats/trash", load: () => import("./agent/trash.js"),
    place: { area: "agent", label: "Trash", icon: "trash", words: "deleted chats restore" } },
  { path: "/analytics", load: () => import("./agent/analytics.js"),
    place: { area: "agent", label: "Analytics", icon: "chart", words: "spend cost tokens turns tools charts" } },
  { path: "/schedules", load: () => import("./agent/schedules.js"),
    place: { area: "agent", label: "Schedules", icon: "calendar", words: "cron time repeat nightly runs schedules.yml" } },
  { path: "/welcome", load: () => import("./agent/welcome.js") },
  { path: "/settings", load: () => import("./settings/index.js") },
  { path: "/settings/you", load: () => import("./settings/you.js"),
    place: { area: "settings", label: "You", icon: "person", words: "look theme dark password sign out phone code" } },
  { path: "/settings/agent", load: () => import("./settings/agent.js"),
    place: { area: "settings", label: "Agent", icon: "wrench", words: "engine approvals budget turns host port agentd.yml" } },
  { path: "/settings/models", load: () => import("./settings/models.js"),
    place: { area: "settings", label: "Models", icon: "cube", words: "prices default supplier models.yml" } },
  { path: "/settings/skills", load: () => import("./settings/skills.js"),
    place: { area: "settings", label: "Skills", icon: "spark", words: "colours instructions skills.yml" } },
  { path: "/settings/labels", load: () => import("./settings/labels.js"),
    place: { area: "settings", label: "Labels", icon: "tag", words: "colours labels.yml" } },
  { path: "/settings/bots", load: () => import("./settings/bots.js"),
    place: { area: "settings", label: "Bots", icon: "bot", role: "administrator", words: "telegram token bots.yml" } },
  { path: "/settings/mcp-servers", load: () => import("./settings/mcp_servers.js"),
    place: { area: "settings", label: "MCP servers", icon: "plug", role: "administrator",
      words: "tools model context protocol mcp.yml .mcp.json" } },
  { path: "/settings/hooks", load: () => import("./settings/hooks.js"),
    place: { area: "settings", label: "Hooks", icon: "play", role: "administrator",
      words: "before after tools guard command lines hooks.yml .claude settings.json" } },
  { path: "/settings/configuration", load: () => import("./settings/configuration.js"),
    place: { area: "settings", label: "Configuration", icon: "key",
      words: "access keys generate key people users problems files address qr tls" } },
  { path: "/settings/about", load: () => import("./settings/about.js"),
    place: { area: "settings", label: "About", icon: "info", words: "version engines licence" } },
  { path: "/gateway", load: () => import("./gateway/overview.js"),
    place: { area: "gateway", label: "Overview", icon: "gauge", role: "administrator", words: "spend today attention limits" } },
  { path: "/gateway/requests", load: () => import("./gateway/requests.js"),
    place: { area: "gateway", label: "Requests", icon: "rows", role: "administrator", words: "log failed slow expensive" } },
  { path: "/gateway/requests/:id", load: () => import("./gateway/requests.js") },
  { path: "/gateway/channels", load: () => import("./gateway/channels.js"),
    place: { area: "gateway", label: "Channels", icon: "plug", group: "Traffic", role: "administrator",
      words: "suppliers openai anthropic gemini vpn proxy check" } },
  { path: "/gateway/channels/:name", load: () => import("./gateway/channels.js") },
  { path: "/gateway/models", load: () => import("./gateway/models.js"),
    place: { area: "gateway", label: "Models", icon: "cube", group: "Traffic", role: "administrator",
      words: "routes prices weight priority" } },
  { path: "/gateway/models/:name", load: () => import("./gateway/models.js") },
  { path: "/gateway/keys", load: () => import("./gateway/keys.js"),
    place: { area: "gateway", label: "Access keys", icon: "key", group: "Traffic", role: "administrator",
      words: "limits budget reissue revoke export codex claude" } },
  { path: "/gateway/keys/:id", load: () => import("./gateway/keys.js") },
  { path: "/gateway/budgets", load: () => import("./gateway/budgets.js"),
    place: { area: "gateway", label: "Budgets", icon: "gauge", group: "Traffic", role: "administrator",
      words: "limits owner tag team soft warn raise spend" } },
  { path: "/gateway/secrets", load: () => import("./gateway/secrets.js"),
    place: { area: "gateway", label: "Rules and dry run", icon: "shield", group: "Secrets", role: "administrator",
      words: "secret rules masking placeholder" } },
  { path: "/gateway/leaks", load: () => import("./gateway/leaks.js"),
    place: { area: "gateway", label: "Leaks", icon: "eye", group: "Secrets", role: "administrator", words: "secrets found" } },
  { path: "/gateway/reports", load: () => import("./gateway/reports.js"),
    place: { area: "gateway", label: "Reports", icon: "chart", group: "Records", role: "administrator",
      words: "spend latency errors cache share csv" } },
  { path: "/gateway/reports/:name", load: () => import("./gateway/reports.js") },
  { path: "/gateway/reprice", load: () => import("./gateway/reprice.js"),
    place: { area: "gateway", label: "Repricing", icon: "reload", group: "Records", role: "administrator",
      words: "cost history catalogue prices wrong" } },
  { path: "/gateway/export", load: () => import("./gateway/export.js"),
    place: { area: "gateway", label: "Export", icon: "export", group: "Records", role: "administrator",
      words: "clickhouse analytics database backfill calendar" } },
  { path: "/gateway/alerts", load: () => import("./gateway/alerts.js"),
    place: { area: "gateway", label: "Alerts", icon: "warning", group: "Records", role: "administrator",
      words: "webhook slack discord ntfy notify targets" } },
  { path: "/gateway/log", load: () => import("./gateway/log.js"),
    place: { area: "gateway", label: "Service log", icon: "log", group: "Records", role: "administrator",
      words: "events cooldown sign-in failures" } },
  { path: "/gateway/changes", load: () => import("./gateway/changes.js"),
    place: { area: "gateway", label: "Changes", icon: "history", group: "Records", role: "administrator", words: "undo journal who" } },
  { path: "/gateway/import", load: () => import("./gateway/import.js"),
    place: { area: "gateway", label: "Import", icon: "download", group: "Gateway", role: "administrator",
      words: "litellm new-api move migrate config.yaml" } },
  { path: "/gateway/management-keys", load: () => import("./gateway/management_keys.js"),
    place: { area: "gateway", label: "Management keys", icon: "terminal", group: "Gateway", role: "administrator",
      words: "api scope read monitor program" } },
  { path: "/gateway/settings", load: () => import("./gateway/settings.js"),
    place: { area: "gateway", label: "Settings", icon: "settings", group: "Gateway", role: "administrator",
      words: "proxy.yml licence time zone bodies" } },
  { path: "/login", load: () => import("./agent/login.js"), bare: true },
];

/**
 * The pages of an area in its navigation, in order.
 * @param {Place["area"]} area
 */
export function placesOf(area) {
  return PAGES.flatMap(({ path, place }) => (place?.area === area ? [{ path, ...place }] : []));
}
