/**
 * The bodies of the HTTP API, generated from its OpenAPI document: `python -m tests.ui.api_types`
 */

export type AboutEngineView = {
  engine: string;
  models: string[];
  where: string;
  version: string;
  problem: string;
  program: ProgramStateView;
};

export type AboutView = {
  version: string;
  python: string;
  licence: string;
  engines: AboutEngineView[];
};

export type AccessKeyPage = {
  items: AccessKeyView[];
  next: string;
};

export type AccessKeyPatch = {
  name?: string | null;
  enabled?: boolean | null;
  expires?: string | null;
  models?: string[] | null;
  channels?: string[] | null;
  addresses?: string[] | null;
  limits?: KeyLimitsPatch | null;
  modelLimits?: Record<string, NewKeyLimits | null> | null;
  softLimits?: SoftLimitsPatch | null;
  warnAt?: number | null;
  owner?: string | null;
  tags?: string[] | null;
  keepBodies?: boolean | null;
  id?: unknown;
  created?: unknown;
  createdBy?: unknown;
  raised?: unknown;
  last4?: unknown;
  previousUntil?: unknown;
  spent?: unknown;
  limitUsage?: unknown;
  softUsage?: unknown;
  furtherLimits?: unknown;
};

export type AccessKeyRef = {
  id: string;
  name: string;
};

export type AccessKeyView = {
  id: string;
  name: string;
  created: string;
  enabled: boolean;
  expires: string | null;
  models: string[] | null;
  channels: string[] | null;
  addresses: string[] | null;
  limits: KeyLimitsView;
  modelLimits: Record<string, KeyLimitsView>;
  softLimits: SoftLimitsView;
  warnAt: number | null;
  raised: LimitRaiseView | null;
  owner: string;
  tags: string[];
  keepBodies: boolean;
  createdBy: string;
  last4: string;
  previousUntil: string | null;
  spent: SpentView;
  limitUsage: LimitStatusView[];
  softUsage: SoftLimitView[];
  furtherLimits: FurtherLimitsView[];
};

export type AddBot = {
  title?: string | null;
  enabled?: boolean | null;
  users?: number[] | null;
  baseUrl?: string | null;
  model?: string | null;
  skill?: string | null;
  token: string;
  id: string;
  kind?: "telegram";
};

export type AddUser = {
  name: string;
  role: "administrator" | "manager" | "viewer";
  password: string;
};

export type AlertDeliveryView = {
  target: string;
  state: string;
  attempts: number;
  lastAttemptAt: string | null;
  nextAttemptAt: string | null;
  answer: string;
};

export type AlertPage = {
  firing: FiringAlertView[];
  watched: boolean;
  items: AlertView[];
  next: string;
};

export type AlertRulesPatch = {
  near_limit?: number | null;
  error_rate?: number | null;
  error_minutes?: number | null;
  error_requests?: number | null;
};

export type AlertTargetPage = {
  items: AlertTargetView[];
  next: string;
};

export type AlertTargetPatch = {
  name?: string | null;
  kind?: "discord" | "slack" | "telegram" | "text" | "webhook" | null;
  url?: string | null;
  secret?: string | null;
  bot?: string | null;
  chat?: number | null;
  alerts?: ("balance_low" | "channel_disabled" | "channel_down" | "error_rate" | "export_failing" | "ledger_failing" | "limit_hit" | "limit_near" | "secret_found")[] | null;
  resolved?: boolean | null;
  minInterval?: number | null;
  enabled?: boolean | null;
  local?: boolean | null;
};

export type AlertTargetView = {
  name: string;
  kind: "discord" | "slack" | "telegram" | "text" | "webhook";
  url: string;
  secret: string;
  bot: string;
  chat: number | null;
  alerts: ("balance_low" | "channel_disabled" | "channel_down" | "error_rate" | "export_failing" | "ledger_failing" | "limit_hit" | "limit_near" | "secret_found")[];
  resolved: boolean;
  minInterval: number;
  enabled: boolean;
  local: boolean;
};

export type AlertTestView = {
  ok: boolean;
  status: number | null;
  answer: string;
};

export type AlertView = {
  id: string;
  at: string;
  kind: string;
  state: "firing" | "resolved";
  subject: string;
  text: string;
  since: string | null;
  deliveries: AlertDeliveryView[];
};

export type AllowPatch = {
  regexes?: string[] | null;
  stopwords?: string[] | null;
};

export type AllowView = {
  regexes: string[];
  stopwords: string[];
};

export type AnalyticsView = {
  by: "chat" | "day" | "engine" | "key" | "label" | "model" | "skill";
  from: string;
  to: string;
  total: TotalsView;
  rows: TotalsView[];
  corrupt: CorruptChatView[];
};

export type AppendPrompt = {
  prompt: string;
  model?: string | null;
  notBefore?: string | null;
  outputSchema?: Record<string, unknown> | null;
  isPaused?: boolean | null;
};

export type ApprovalDetailView = {
  kind: "command" | "diff";
  text: string;
};

export type ApprovalRule = {
  decision: "allow" | "ask" | "deny";
  kind?: "network" | "other" | "outside" | "protected" | "read" | "shell" | "write" | null;
  tool?: string;
  subject?: string;
};

export type ApprovalView = {
  id: number;
  chatId: number;
  kind: string;
  tool: string;
  subject: string;
  reason: string;
  askedAt: string;
  deadline: string | null;
  state: string;
  session: boolean;
  note: string;
  answeredBy: string;
  answeredAt: string | null;
  detail: ApprovalDetailView | null;
  choices: string[];
};

export type ApprovalsView = {
  approvals: ApprovalView[];
};

export type ArrangeSkills = {
  default?: string | null;
  skills?: SkillAppearanceView[] | null;
};

export type AutofixStatus = {
  on: boolean;
  builds: BuildFix[];
};

export type AutomaticDisablingView = {
  at: string;
  reason: string;
};

export type Backfill = {
  from: string;
  to: string;
};

export type BackfillPlan = {
  days: MissedDay[];
  rows: number;
  bytes: number;
  started: boolean;
};

export type BalanceReadingPatch = {
  source?: "auto" | "deepseek" | "moonshot" | "new-api" | "novita" | "off" | "openrouter" | "siliconflow" | null;
  low?: number | null;
};

export type BalanceReadingView = {
  source: "auto" | "deepseek" | "moonshot" | "new-api" | "novita" | "off" | "openrouter" | "siliconflow";
  low: number | null;
};

export type BatchRequest = {
  action: "delete" | "disable" | "enable";
  names: string[];
};

export type BatchView = {
  changed: string[];
  unchanged: string[];
  change: number | null;
};

export type BodiesView = {
  request: string;
  response: string;
  base64: boolean;
};

export type BodySettingsPatch = {
  keep_days?: number | null;
  max_bytes?: number | null;
};

export type BodyView = {
  type: string;
  schema: Record<string, unknown>;
  example?: unknown;
};

export type BotCheckView = {
  ok: boolean;
  account: string;
  problem: string;
};

export type BotSettingsList = {
  bots: BotSettingsView[];
  problems: string[];
};

export type BotSettingsView = {
  id: string;
  title: string;
  kind: "telegram";
  enabled: boolean;
  running: boolean;
  pollingError: string | null;
  token: string;
  users: number[];
  baseUrl: string;
  model: string;
  skill: string;
  chatCount: number;
  latestChats: LinkedChat[];
};

export type BotView = {
  id: string;
  title: string;
  enabled: boolean;
  running: boolean;
  pollingError: string | null;
};

export type BucketCostView = {
  bucket: string;
  tokens: number;
  cost: number;
};

export type BudgetPage = {
  items: BudgetView[];
  next: string;
};

export type BudgetPatch = {
  name?: string | null;
  owner?: string | null;
  tag?: string | null;
  enabled?: boolean | null;
  limits?: KeyLimitsPatch | null;
  softLimits?: SoftLimitsPatch | null;
  warnAt?: number | null;
  created?: unknown;
  raised?: unknown;
  keys?: unknown;
  spent?: unknown;
  limitUsage?: unknown;
  softUsage?: unknown;
  forecast?: unknown;
};

export type BudgetView = {
  name: string;
  owner: string;
  tag: string;
  enabled: boolean;
  limits: KeyLimitsView;
  softLimits: SoftLimitsView;
  warnAt: number | null;
  raised: LimitRaiseView | null;
  created: string | null;
  keys: number;
  spent: SpentView;
  limitUsage: LimitStatusView[];
  softUsage: SoftLimitView[];
  forecast: ForecastView[];
};

export type BuildDetailView = {
  name: string;
  state: "failed" | "interrupted" | "none" | "running" | "stopped" | "succeeded" | "timedOut";
  run: string;
  startedBy: string;
  started: string | null;
  ended: string | null;
  exitCode: number | null;
  errors: number;
  warnings: number;
  size: number;
  omitted: number;
  message: string;
  problems: ProblemView[];
};

export type BuildFix = {
  build: string;
  on: boolean;
  chatId: number;
  tries: number;
  tried: number;
};

export type BuildView = {
  name: string;
  state: "failed" | "interrupted" | "none" | "running" | "stopped" | "succeeded" | "timedOut";
  run: string;
  startedBy: string;
  started: string | null;
  ended: string | null;
  exitCode: number | null;
  errors: number;
  warnings: number;
  size: number;
  omitted: number;
  message: string;
};

export type BuildsView = {
  builds: BuildView[];
};

export type BurnLineView = {
  key: string;
  title: string;
  window: string;
  limit: number;
  used: number;
  reserved: number;
  resets: string | null;
  daysLeft: number | null;
  lasts: boolean;
  scope: "key" | "model" | "owner" | "tag";
  model: string;
  budget: string;
};

export type BurnReport = {
  zone: string;
  items: BurnLineView[];
  next: string;
};

export type CacheReport = {
  from: string;
  to: string;
  zone: string;
  by: string;
  total: CacheRowView;
  items: CacheRowView[];
  next: string;
};

export type CacheRowView = {
  name: string;
  title: string;
  requests: number;
  input: number;
  cacheRead: number;
  cacheWrite: number;
  cacheShare: number | null;
};

export type CallerView = {
  name: string;
  scope: "all" | "keys" | "read";
};

export type CataloguePage = {
  source: string;
  at: string | null;
  problem: string;
  items: ListedPricesView[];
  next: string;
};

export type CatalogueView = {
  source: string;
  at: string;
  models: number;
};

export type ChangeBot = {
  title?: string | null;
  enabled?: boolean | null;
  token?: string | null;
  users?: number[] | null;
  baseUrl?: string | null;
  model?: string | null;
  skill?: string | null;
};

export type ChangeLabel = {
  name?: string | null;
  color?: string | null;
};

export type ChangeOwnPassword = {
  password: string;
  newPassword: string;
};

export type ChangeRecordPage = {
  items: ChangeRecordView[];
  next: string;
};

export type ChangeRecordView = {
  number: number;
  at: string;
  by: string;
  remote: string;
  action: string;
  resource: string;
  name: string;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
  undoes: number | null;
  undoable: boolean;
};

export type ChangeSettings = {
  model?: string | null;
  skill?: string | null;
  systemPrompt?: string | null;
  approvals?: "ask" | "auto" | "deny" | "" | null;
  worktree?: boolean | null;
  keepProcesses?: boolean | null;
  mode?: string | null;
};

export type ChangeUser = {
  role?: "administrator" | "manager" | "viewer" | null;
  password?: string | null;
};

export type ChangedFile = {
  path: string;
  change: string;
  before: string;
};

export type ChannelBalanceView = {
  source: "auto" | "deepseek" | "moonshot" | "new-api" | "novita" | "off" | "openrouter" | "siliconflow";
  low: number | null;
  keys: KeyBalanceView[];
};

export type ChannelFailureView = {
  at: string;
  error: string;
  detail: string;
};

export type ChannelPage = {
  items: ChannelView[];
  next: string;
};

export type ChannelPatch = {
  name?: string | null;
  dialects?: ("anthropic" | "gemini" | "openai-chat" | "openai-responses")[] | null;
  url?: string | null;
  key?: string | null;
  keys?: string[] | null;
  enabled?: boolean | null;
  local?: boolean | null;
  transport?: ChannelTransportPatch | null;
  headers?: Record<string, string | null> | null;
  parameters?: NewParameterChanges | null;
  onLeave?: "cut" | "drain" | null;
  coolDown?: number | null;
  timeout?: number | null;
  balance?: BalanceReadingPatch | null;
  models?: unknown;
  autoDisabled?: unknown;
};

export type ChannelPreview = {
  title: string;
  servers: PreviewServer[];
  traffic: PreviewTraffic;
  skipped: Record<string, number>;
};

export type ChannelStateView = {
  name: string;
  state: "cooldown" | "disabled" | "ok";
  cooldownUntil: string | null;
  cooldownReason: string;
  modelCooldowns: ModelCooldownView[];
  lastFailure: ChannelFailureView | null;
  succeeded: number;
  failed: number;
  recent: RecentCallsView;
  keys: KeyStateView[];
  balance: ChannelBalanceView | null;
};

export type ChannelTodayView = {
  name: string;
  enabled: boolean;
  requests: number;
  ok: number;
  cost: number;
  firstToken: number | null;
};

export type ChannelTransportPatch = {
  kind?: "direct" | "http" | "socks5" | "vpn" | null;
  url?: string | null;
  server?: string | null;
};

export type ChannelTransportView = {
  kind: "direct" | "http" | "socks5" | "vpn";
  url: string;
  server: string;
};

export type ChannelView = {
  name: string;
  dialects: ("anthropic" | "gemini" | "openai-chat" | "openai-responses")[];
  url: string;
  key: string;
  keys: string[];
  enabled: boolean;
  autoDisabled: AutomaticDisablingView | null;
  local: boolean;
  transport: ChannelTransportView;
  headers: Record<string, string>;
  parameters: ParameterChangesView | null;
  onLeave: "cut" | "drain";
  coolDown: number;
  timeout: number;
  balance: BalanceReadingView;
  models: string[];
};

export type ChannelsView = {
  ok: number;
  cooldown: number;
  disabled: number;
  unhealthy: UnhealthyChannelView[];
};

export type ChatAgentView = {
  chat: StatusView;
  state: "completed" | "created" | "error" | "processing" | "queued";
  held: string;
  waitsUntil: string | null;
  waitsFor: string;
  turn: TurnStatusView | null;
  runningReply: RunningReplyView | null;
  approvals: ApprovalView[];
  standingDecisions: ApprovalView[];
  settings: ChatSettingsView;
};

export type ChatCreatedView = {
  chatId: number;
  url: string;
  status: string;
  createdAt: string;
  botLinked: boolean | null;
  botLinkNote: string;
};

export type ChatMcpServer = {
  command?: string;
  args?: string[];
  env?: Record<string, string>;
  url?: string;
  headers?: Record<string, string>;
};

export type ChatMcpServers = {
  mcpServers: Record<string, ChatMcpServer>;
};

export type ChatRow = {
  chatId: number;
  status: "completed" | "processing" | "queued";
  state: "completed" | "created" | "error" | "processing" | "queued";
  title: string;
  labels: string[];
  createdAt: string;
  updatedAt: string;
  messageCount: number;
  totalCost: number;
  waiting: number;
  held: string;
  waitsUntil: string | null;
  asking: number;
  problem: string;
};

export type ChatSettingsView = {
  model: string;
  skill: string;
  systemPrompt: string;
  approvals: string;
  worktree: boolean;
  keepProcesses: boolean;
  mode: string;
};

export type ChatsView = {
  chats: ListedChat[];
  next: number | null;
};

export type CheckStepView = {
  name: "connect" | "models" | "name" | "request" | "secret" | "tls";
  state: "failed" | "passed" | "skipped";
  ms: number;
  detail: string;
};

export type CheckView = {
  ok: boolean;
  channel: string;
  steps: CheckStepView[];
  cost: number | null;
};

export type CodeView = {
  code: string;
  expiresAt: string;
};

export type CommandView = {
  name: string;
  description: string;
  argumentHint: string;
  model: string;
  allowedTools: string[];
  source: "config" | "mcp" | "workspace";
  path: string;
};

export type CommandsView = {
  commands: CommandView[];
  problems: ConfigProblem[];
};

export type CommitView = {
  id: string;
  at: string;
  author: string;
  subject: string;
};

export type CommitWorktree = {
  message?: string;
};

export type ComparisonPage = {
  source: string;
  at: string | null;
  problem: string;
  items: PriceComparison[];
  next: string;
};

export type Concept = {
  name: string;
  meaning: string;
};

export type ConfigProblem = {
  where: string;
  line: number;
  what: string;
};

export type CopyRequest = {
  name: string;
};

export type CorruptChatView = {
  chatId: number;
  problem: string;
};

export type CorruptDayView = {
  day: string;
  lines: number;
};

export type CreateChat = {
  prompt?: string | null;
  notBefore?: string | null;
  outputSchema?: Record<string, unknown> | null;
  title?: string | null;
  model?: string | null;
  skill?: string | null;
  systemPrompt?: string | null;
  botId?: string | null;
  worktree?: boolean | null;
  mode?: string | null;
};

export type CreateOfferedRequest = {
  models: PickedModel[];
  cataloguePrices?: boolean;
};

export type CreatedModels = {
  items: GatewayModelView[];
};

export type DayTotalsView = {
  day: string;
  tokens: Tokens;
  cost: number;
  turns: number;
  turnSeconds: TurnTimeView | null;
};

export type DecideApproval = {
  decision: "allow" | "deny";
  session?: boolean;
  note?: string;
  rule?: ApprovalRule | null;
};

export type DecisionView = {
  state: "allowed" | "denied" | "expired" | "withdrawn";
  by: string;
  note: string;
  question: number;
  session: boolean;
};

export type DeletedView = {
  chatId: number;
  restorableUntil: string;
};

export type DeploymentView = {
  name: string;
  state: "failed" | "running" | "starting" | "stopped" | "stopping" | "unhealthy" | "waiting" | "unknown";
  wanted: boolean;
  pid: number;
  started: string | null;
  ended: string | null;
  exitCode: number | null;
  failures: number;
  restarts: number;
  crashLoop: boolean;
  message: string;
};

export type DeploymentsView = {
  deployments: DeploymentView[];
};

export type DiffView = {
  diff: string;
  truncated: boolean;
};

export type DisabledChannelView = {
  name: string;
  at: string;
  reason: string;
};

export type DropWorktree = {
  force?: boolean;
};

export type DroppedView = {
  serviceLog: number;
  bodies: number;
};

export type DuplicateChat = {
  title?: string | null;
  history?: boolean;
};

export type EditPrompt = {
  prompt?: string | null;
  model?: string | null;
  notBefore?: string | null;
};

export type EndingsView = {
  completed: number;
  failed: number;
  stopped: number;
  interrupted: number;
  deferred: number;
};

export type EndpointView = {
  method: string;
  path: string;
  summary: string;
  key: string;
  scopes: ("all" | "keys" | "read")[];
  parameters: ParameterView[];
  body: BodyView[];
  status: number;
  response: BodyView[];
  errors: ErrorView[];
};

export type EngineChoiceRequest = {
  program?: "claude" | "codex" | "gemini" | "opencode" | null;
  supplier?: SupplierChoice | null;
};

export type EngineStateView = {
  engine: string;
  program: ProgramStateView;
};

export type EntryView = {
  path: string;
  kind: "file" | "folder" | "link" | "other";
  size: number;
};

export type ErrorBody = {
  error: string;
  message: string;
  details: string;
};

export type ErrorReport = {
  from: string;
  to: string;
  zone: string;
  total: number;
  items: ErrorRowView[];
  next: string;
};

export type ErrorRowView = {
  error: string;
  requests: number;
};

export type ErrorView = {
  status: number;
  error: string;
  meaning: string;
};

export type ExpectedResponse = {
  status: number;
  where: Record<string, unknown>;
};

export type ExportCheck = {
  ok: boolean;
  steps: ExportStepView[];
};

export type ExportDay = {
  day: string;
  state: "changed" | "done" | "partial" | "pending";
  rows: number;
  requested: boolean;
  doneAt: string | null;
  error: string;
};

export type ExportSettingsPatch = {
  url?: string | null;
  database?: string | null;
  table?: string | null;
  user?: string | null;
  password?: string | null;
  enabled?: boolean | null;
  since?: string | null;
  today?: boolean | null;
};

export type ExportState = {
  phase: "idle" | "off" | "sending" | "waiting";
  url: string | null;
  database: string;
  table: string;
  lagDays: number;
  lagSince: string | null;
  checkedAt: string | null;
  lastSentAt: string | null;
  lastError: string;
  failedAt: string | null;
  retrySeconds: number;
  items: ExportDay[];
  next: string;
};

export type ExportStepView = {
  name: "reach" | "settings" | "sign_in" | "table";
  passed: boolean;
  detail: string;
};

export type FailedTryView = {
  channel: string;
  error: string;
  ms: number;
  model: string;
  supplierModel: string;
  tier: string;
  usage: UsageView;
  cost: number;
};

export type FileContentView = {
  path: string;
  kind: "binary" | "image" | "text";
  size: number;
  text: string;
  truncated: boolean;
};

export type FileView = {
  name: string;
  path: string;
  size: number;
  type: string;
  at: string;
};

export type FilesView = {
  folder: string;
  files: FileView[];
  bytesUsed: number;
  maxBytes: number;
  maxFiles: number;
  maxFileBytes: number;
};

export type FindingView = {
  rule: string;
  mode: "block" | "hide" | "report";
  line: number;
  offset: number;
  length: number;
};

export type FindingsView = {
  findings: FindingView[];
  blocked: string;
};

export type FiringAlertView = {
  kind: string;
  subject: string;
  text: string;
  since: string;
};

export type FolderView = {
  path: string;
  entries: EntryView[];
  truncated: boolean;
};

export type ForecastView = {
  name: string;
  daysLeft: number | null;
  lasts: boolean;
};

export type FoundMessagesView = {
  chatId: number;
  matches: MatchView[];
  next: number | null;
};

export type FurtherLimitsView = {
  scope: string;
  name: string;
  budget: string;
  spent: FurtherSpentView;
  limitUsage: LimitStatusView[];
  softUsage: SoftLimitView[];
};

export type FurtherSpentView = {
  total: number | null;
  day: number;
  week: number;
  month: number;
  zone: string;
};

export type GatewayModelPage = {
  items: GatewayModelView[];
  next: string;
};

export type GatewayModelPatch = {
  name?: string | null;
  routes?: NewModelRoute[] | null;
  enabled?: boolean | null;
  prices?: NewPrices | null;
  maxOutput?: number | null;
  context?: number | null;
  fallbacks?: string[] | null;
  contextFallbacks?: string[] | null;
  contentFallbacks?: string[] | null;
  headers?: Record<string, string | null> | null;
  parameters?: NewParameterChanges | null;
};

export type GatewayModelView = {
  name: string;
  routes: ModelRouteView[];
  enabled: boolean;
  prices: PricesView | null;
  maxOutput: number | null;
  context: number | null;
  fallbacks: string[];
  contextFallbacks: string[];
  contentFallbacks: string[];
  headers: Record<string, string>;
  parameters: ParameterChangesView | null;
};

export type GatewaySettingsPatch = {
  time_zone?: string | null;
  unknown_price?: "estimate" | "flag" | "refuse" | null;
  assumed_prices?: PricesPatch | null;
  on_ledger_failure?: "continue" | "refuse" | null;
  sync_ledger?: boolean | null;
  keep_days?: number | null | null;
  bodies?: BodySettingsPatch | null;
  mask_secrets?: boolean | null;
  max_body?: number | null;
  idle_timeout?: number | null;
  tries?: number | null;
  disable_channel_after?: number | null | null;
  export?: ExportSettingsPatch | null;
  tracing?: TracingSettingsPatch | null;
  alerts?: AlertRulesPatch | null;
};

export type GatewaySettingsView = {
  settings: SettingView[];
  problems: string[];
};

export type GenerateKey = {
  name: string;
  answers?: boolean;
};

export type GitStatusView = {
  branch: string;
  upstream: string;
  ahead: number;
  behind: number;
  staged: ChangedFile[];
  changed: ChangedFile[];
  untracked: string[];
  conflicts: string[];
  hooks: string[];
  truncated: boolean;
};

export type Health = {
  status: string;
};

export type HeldView = {
  chatId: number;
  held: string;
};

export type HistoryView = {
  chatId: number;
  messages: WholeMessageView[];
  earlier: boolean;
  later: boolean;
};

export type HoldQueue = {
  reason?: string;
};

export type HookView = {
  event: "PostToolUse" | "PreToolUse" | "Stop" | "UserPromptSubmit";
  matcher: string;
  command: string;
  seconds: number;
};

export type HooksOfWorkspaceView = {
  ignored: boolean;
  files: WorkspaceHooksView[];
  problems: string[];
};

export type HooksView = {
  hooks: HookView[];
  problems: string[];
  workspace: HooksOfWorkspaceView;
};

export type HourView = {
  hour: number;
  requests: number;
  ok: number;
  cost: number;
  secrets: number;
  firstToken: number | null;
};

export type ImportFileRequest = {
  text: string;
  name?: string;
  origin?: "litellm" | "new-api" | null;
};

export type ImportFileView = {
  channels: PlannedChannelView[];
  models: PlannedModelView[];
  budgets: PlannedBudgetView[];
  notTaken: NotTakenView[];
  notes: string[];
  cataloguePriced: string[];
  change: number | null;
};

export type ImportRequest = {
  channels?: NewChannel[];
  models?: NewGatewayModel[];
  budgets?: NewBudget[];
  cataloguePrices?: boolean;
};

export type ImportView = {
  channels: string[];
  models: string[];
  budgets: string[];
  cataloguePriced: string[];
  change: number | null;
};

export type InstallLicence = {
  token: string;
};

export type InstalledAgentView = {
  program: string;
  title: string;
  path: string;
  version: string;
  signedIn: boolean;
  signIn: string;
};

export type IssuedKeyView = {
  id: string;
  name: string;
  created: string;
  enabled: boolean;
  expires: string | null;
  models: string[] | null;
  channels: string[] | null;
  addresses: string[] | null;
  limits: KeyLimitsView;
  modelLimits: Record<string, KeyLimitsView>;
  softLimits: SoftLimitsView;
  warnAt: number | null;
  raised: LimitRaiseView | null;
  owner: string;
  tags: string[];
  keepBodies: boolean;
  createdBy: string;
  key: string;
  last4: string;
  previousUntil: string | null;
  spent: SpentView;
  limitUsage: LimitStatusView[];
  softUsage: SoftLimitView[];
  furtherLimits: FurtherLimitsView[];
};

export type IssuedManagementKeyView = {
  name: string;
  scope: "all" | "keys" | "read";
  enabled: boolean;
  created: string;
  createdBy: string;
  key: string;
  lastUsed: string | null;
};

export type KeyBalanceView = {
  field: string;
  key: string;
  amount: number | null;
  currency: string;
  readAt: string | null;
  error: string;
  low: boolean;
};

export type KeyBatchRequest = {
  action: "delete" | "disable" | "enable" | "tag" | "untag";
  names: string[];
  tags?: string[];
};

export type KeyCountsView = {
  total: number;
  enabled: number;
};

export type KeyInfo = {
  name: string;
  created: string;
  lastUsed: string | null;
  revoked: boolean;
  createdBy: string;
  children: string[];
  accessKeys: AccessKeyRef[];
  answers: boolean;
};

export type KeyLimitsPatch = {
  total?: number | null;
  day?: number | null;
  week?: number | null;
  month?: number | null;
  requestsPerMinute?: number | null;
  tokensPerMinute?: number | null;
  parallel?: number | null;
};

export type KeyLimitsView = {
  total: number | null;
  day: number | null;
  week: number | null;
  month: number | null;
  requestsPerMinute: number | null;
  tokensPerMinute: number | null;
  parallel: number | null;
};

export type KeyRaiseRequest = {
  until: string;
  limits?: NewKeyLimits;
  models?: Record<string, NewKeyLimits>;
};

export type KeyStateView = {
  field: string;
  key: string;
  state: "cooldown" | "ok";
  cooldownUntil: string | null;
  cooldownReason: string;
  modelCooldowns: ModelCooldownView[];
};

export type KeysView = {
  keys: KeyInfo[];
  problem: string;
};

export type Label = {
  name: string;
  color?: string;
};

export type LabelRow = {
  name: string;
  color: string;
  chats: number;
};

export type LabelledChats = {
  chatIds: number[];
};

export type LabelsView = {
  labels: LabelRow[];
};

export type LatencyRowView = {
  name: string;
  answers: number;
  latency: QuantilesView;
  firstToken: QuantilesView;
};

export type LeakReport = {
  from: string;
  to: string;
  zone: string;
  total: number;
  items: LeakRowView[];
  next: string;
};

export type LeakRowView = {
  day: string;
  key: string;
  title: string;
  rule: string;
  count: number;
};

export type LicenceShortView = {
  state: string;
  reason: string;
  expires: string | null;
};

export type LicenceStatusView = {
  state: "expired" | "invalid" | "missing" | "valid";
  reason: string;
  licence: LicenceView | null;
};

export type LicenceView = {
  holder: string;
  edition: string;
  issued: string;
  expires: string;
};

export type LimitRaiseView = {
  limits: KeyLimitsView;
  models: Record<string, KeyLimitsView>;
  until: string;
  by: string;
  at: string | null;
};

export type LimitStatusView = {
  name: string;
  limit: number;
  used: number;
  reserved: number;
  resets: string | null;
};

export type LineView = {
  path: string;
  line: number;
  text: string;
};

export type LinkedChat = {
  chatId: number;
  title: string;
};

export type ListedChat = {
  chatId: number;
  status: "completed" | "processing" | "queued";
  state: "completed" | "created" | "error" | "processing" | "queued";
  title: string;
  labels: string[];
  createdAt: string;
  updatedAt: string;
  messageCount: number;
  totalCost: number;
  waiting: number;
  held: string;
  waitsUntil: string | null;
  asking: number;
  problem: string;
  match: MatchView | null;
};

export type ListedPricesView = {
  supplier: string;
  model: string;
  title: string;
  prices: PricesView;
  since: string;
  context: number | null;
  note: string;
  by: "address" | "name";
};

export type LogView = {
  commits: CommitView[];
  next: string;
};

export type LoginView = {
  id: string;
  device: string;
  address: string;
  createdAt: string;
  usedAt: string;
  expiresAt: string;
  byCode: boolean;
  current: boolean;
};

export type LoginsView = {
  sessions: LoginView[];
};

export type LowBalanceView = {
  channel: string;
  amount: number;
  currency: string;
  low: number;
};

export type MakeCommit = {
  message: string;
  paths?: string[];
  all?: boolean;
  runHooks?: boolean;
};

export type ManagementKeyPage = {
  items: ManagementKeyView[];
  next: string;
};

export type ManagementKeyPatch = {
  scope?: "all" | "keys" | "read" | null;
  enabled?: boolean | null;
  name?: unknown;
  created?: unknown;
  createdBy?: unknown;
  lastUsed?: unknown;
};

export type ManagementKeyView = {
  name: string;
  scope: "all" | "keys" | "read";
  enabled: boolean;
  created: string;
  createdBy: string;
  lastUsed: string | null;
};

export type ManagementView = {
  name: string;
  version: string;
  summary: string;
  caller: CallerView;
  openapi: string;
  signIn: string[];
  concepts: Concept[];
  secrets: string[];
  conventions: string[];
  recipe: Recipe;
  endpoints: EndpointView[];
  schemas: Record<string, unknown>;
};

export type MatchView = {
  messageId: number;
  excerpt: string;
};

export type McpProjectServerView = {
  id: string;
  name: string;
  launch: string;
  decision: "allowed" | "denied" | "undecided";
  decidedAt: string | null;
  decidedBy: string;
  isPresent: boolean;
};

export type McpProjectView = {
  ignored: boolean;
  servers: McpProjectServerView[];
  problems: string[];
};

export type McpServerCheckView = {
  ok: boolean;
  tools: McpToolView[];
  problem: string;
};

export type McpServerForm = {
  name: string;
  enabled?: boolean;
  command?: string[];
  env?: Record<string, string>;
  url?: string;
  headers?: Record<string, string>;
  allow?: string[];
  allow_reading?: boolean;
  engines?: ("acp" | "claude-code" | "codex" | "native")[];
  seconds?: number;
};

export type McpServerStateView = {
  running: number;
  tools: number | null;
  problem: string;
  at: string | null;
};

export type McpServersView = {
  servers: McpServerForm[];
  problems: string[];
  states: Record<string, McpServerStateView>;
  project: McpProjectView;
};

export type McpToolView = {
  name: string;
  description: string;
  reads: boolean;
};

export type MeView = {
  user: string;
  role: "administrator" | "manager" | "nobody" | "viewer";
  seen: Record<string, number>;
  pins: number[];
  look: Record<string, string>;
};

export type MergeWorktree = {
  message?: string;
  into?: string | null;
};

export type MergedView = {
  commit: string;
  worktree: WorktreeView;
};

export type MessageCountsView = {
  user: number;
  assistant: number;
  tool: number;
  error: number;
};

export type MessageView = {
  id: number;
  role: string;
  content: string;
  createdAt: string;
  tokens: Tokens;
  cost: number;
};

export type MessagesView = {
  chatId: number;
  messages: MessageView[];
  since: string | null;
};

export type MissedDay = {
  day: string;
  state: "changed" | "done" | "partial" | "pending";
  rows: number;
  bytes: number;
  exact: boolean;
};

export type Model = {
  name: string;
  engine: "acp" | "claude-code" | "codex" | "native" | "offline";
  model?: string;
  supplier?: string;
  command?: string[];
  effort?: string;
  context?: number | null;
  max_output?: number | null;
  web_search?: boolean;
  web_search_price?: number | null;
  prices?: Prices | null;
};

export type ModelCooldownView = {
  supplierModel: string;
  until: string;
  reason: string;
};

export type ModelRouteView = {
  channel: string;
  model: string;
  priority: number;
  weight: number;
  prices: PricesView | null;
};

export type ModelStatusList = {
  models: ModelStatusView[];
  default: string;
  defaultEngine: EngineStateView;
  problems: ConfigProblem[];
  suppliers: string[];
};

export type ModelStatusView = {
  name: string;
  engine: string;
  model: string;
  supplier: string;
  effort: string;
  context: number | null;
  prices: Prices | null;
  default: boolean;
  available: boolean;
  problem: string;
  program: ProgramStateView;
};

export type MovePrompt = {
  position: number;
};

export type NewAccessKey = {
  name: string;
  enabled?: boolean;
  expires?: string | null;
  models?: string[] | null;
  channels?: string[] | null;
  addresses?: string[] | null;
  limits?: NewKeyLimits;
  modelLimits?: Record<string, NewKeyLimits>;
  softLimits?: NewSoftLimits;
  warnAt?: number | null;
  owner?: string;
  tags?: string[];
  keepBodies?: boolean;
};

export type NewAlertTarget = {
  name: string;
  kind?: "discord" | "slack" | "telegram" | "text" | "webhook";
  url?: string;
  secret?: string;
  bot?: string;
  chat?: number | null;
  alerts?: ("balance_low" | "channel_disabled" | "channel_down" | "error_rate" | "export_failing" | "ledger_failing" | "limit_hit" | "limit_near" | "secret_found")[];
  resolved?: boolean;
  minInterval?: number;
  enabled?: boolean;
  local?: boolean;
};

export type NewAllow = {
  regexes?: string[];
  stopwords?: string[];
};

export type NewApprovalRuleSetting = {
  decision: "allow" | "ask" | "deny";
  kind?: "network" | "other" | "outside" | "protected" | "read" | "shell" | "write" | null;
  tool?: string;
  subject?: string;
};

export type NewBalanceReading = {
  source?: "auto" | "deepseek" | "moonshot" | "new-api" | "novita" | "off" | "openrouter" | "siliconflow";
  low?: number | null;
};

export type NewBudget = {
  name: string;
  owner?: string;
  tag?: string;
  enabled?: boolean;
  limits?: NewKeyLimits;
  softLimits?: NewSoftLimits;
  warnAt?: number | null;
};

export type NewChannel = {
  name: string;
  dialects: ("anthropic" | "gemini" | "openai-chat" | "openai-responses")[];
  url: string;
  key?: string;
  keys?: string[];
  enabled?: boolean;
  local?: boolean;
  transport?: NewChannelTransport;
  headers?: Record<string, string>;
  parameters?: NewParameterChanges | null;
  onLeave?: "cut" | "drain";
  coolDown?: number;
  timeout?: number;
  balance?: NewBalanceReading;
};

export type NewChannelTransport = {
  kind?: "direct" | "http" | "socks5" | "vpn";
  url?: string;
  server?: string;
};

export type NewGatewayModel = {
  name: string;
  routes: NewModelRoute[];
  enabled?: boolean;
  prices?: NewPrices | null;
  maxOutput?: number | null;
  context?: number | null;
  fallbacks?: string[];
  contextFallbacks?: string[];
  contentFallbacks?: string[];
  headers?: Record<string, string>;
  parameters?: NewParameterChanges | null;
};

export type NewKeyLimits = {
  total?: number | null;
  day?: number | null;
  week?: number | null;
  month?: number | null;
  requestsPerMinute?: number | null;
  tokensPerMinute?: number | null;
  parallel?: number | null;
};

export type NewKeyView = {
  name: string;
  key: string;
};

export type NewManagementKey = {
  name: string;
  scope: "all" | "keys" | "read";
  enabled?: boolean;
};

export type NewModelRoute = {
  channel: string;
  model?: string;
  priority?: number;
  weight?: number;
  prices?: NewPrices | null;
};

export type NewParameterChanges = {
  set?: Record<string, unknown>;
  default?: Record<string, unknown>;
  remove?: string[];
};

export type NewPrices = {
  input: number;
  output: number;
  cacheRead?: number | null;
  cacheWrite?: number | null;
  cacheWrite1H?: number | null;
  reasoning?: number | null;
  above?: NewTier[];
  services?: NewServiceRates[];
};

export type NewSecretRule = {
  id: string;
  mode?: "block" | "hide" | "report";
  enabled?: boolean;
  description?: string;
  regex?: string;
  group?: number;
  keywords?: string[];
  entropy?: number;
  allow?: NewAllow;
  value?: string;
};

export type NewServiceRates = {
  input: number;
  output: number;
  cacheRead?: number | null;
  cacheWrite?: number | null;
  cacheWrite1H?: number | null;
  reasoning?: number | null;
  tier: string;
};

export type NewServiceRatesSetting = {
  input: number;
  output: number;
  cache_read?: number | null;
  cache_write?: number | null;
  cache_write_1h?: number | null;
  reasoning?: number | null;
  tier: string;
};

export type NewSoftLimits = {
  total?: number | null;
  day?: number | null;
  week?: number | null;
  month?: number | null;
};

export type NewTier = {
  input: number;
  output: number;
  cacheRead?: number | null;
  cacheWrite?: number | null;
  cacheWrite1H?: number | null;
  reasoning?: number | null;
  tokens: number;
};

export type NewTierSetting = {
  input: number;
  output: number;
  cache_read?: number | null;
  cache_write?: number | null;
  cache_write_1h?: number | null;
  reasoning?: number | null;
  tokens: number;
};

export type NewTlsFilesSetting = {
  certificate: string;
  key: string;
};

export type NotTakenView = {
  place: string;
  why: string;
};

export type NotePage = {
  dropped: number;
  items: ServiceLogEntryView[];
  next: string;
};

export type OfferView = {
  channel: string;
  complete: boolean;
  items: OfferedModelView[];
};

export type OfferedModelView = {
  model: string;
  title: string;
  context: number | null;
  maxOutput: number | null;
  models: string[];
  listed: ListedPricesView | null;
};

export type OverviewView = {
  day: string;
  summary: SummaryView;
  yesterday: PeriodView;
  firstToken: QuantilesView;
  hours: HourView[];
  yesterdayHours: HourView[];
  channels: ChannelTodayView[];
  limits: BurnLineView[];
  softLimits: PassedSoftLimitView[];
  disabledChannels: DisabledChannelView[];
  lowBalances: LowBalanceView[];
  firing: FiringAlertView[];
  latest: RequestView[];
};

export type ParameterChangesView = {
  set: Record<string, unknown>;
  default: Record<string, unknown>;
  remove: string[];
};

export type ParameterView = {
  name: string;
  in: string;
  required: boolean;
  description: string;
  schema: Record<string, unknown>;
};

export type PassedSoftLimitView = {
  scope: "key" | "model" | "owner" | "tag";
  name: string;
  key: string;
  model: string;
  budget: string;
  window: "day" | "month" | "total" | "week";
  limit: number;
  spent: number;
  resets: string | null;
};

export type PeriodView = {
  requests: number;
  ok: number;
  errors: Record<string, number>;
  cost: number;
  inputTokens: number;
  outputTokens: number;
  secrets: number;
};

export type PickedModel = {
  model: string;
  name?: string | null;
  context?: number | null;
  maxOutput?: number | null;
};

export type PlannedBudgetView = {
  name: string;
  owner: string;
  tag: string;
};

export type PlannedChannelView = {
  name: string;
  url: string;
  dialects: string[];
  enabled: boolean;
};

export type PlannedModelView = {
  name: string;
  channels: string[];
  priced: boolean;
};

export type PreferenceChange = {
  seen?: Record<string, number>;
  unseen?: number[];
  pin?: number[];
  unpin?: number[];
  look?: Record<string, string | null>;
};

export type PreviewRequest = {
  link?: string | null;
  body?: string | null;
  url?: string | null;
  local?: boolean;
};

export type PreviewServer = {
  name: string;
  type: "anytls" | "http" | "hysteria2" | "socks5" | "ss" | "trojan" | "tuic" | "vless" | "vmess" | "wireguard";
  host: string;
  port: number;
  engine: string | null;
  problem: string;
};

export type PreviewTraffic = {
  used: number | null;
  total: number | null;
  left: number | null;
  expiresAt: string | null;
};

export type PriceComparison = {
  name: string;
  prices: PricesView | null;
  listed: ListedPricesView | null;
  differs: boolean;
};

export type Prices = {
  input: number;
  output: number;
  cache_read?: number | null;
  cache_write?: number | null;
  cache_write_1h?: number | null;
  reasoning?: number | null;
  above?: Tier[];
  services?: ServiceRates[];
};

export type PricesPatch = {
  input?: number | null;
  output?: number | null;
  cache_read?: number | null;
  cache_write?: number | null;
  cache_write_1h?: number | null;
  reasoning?: number | null;
  above?: NewTierSetting[] | null;
  services?: NewServiceRatesSetting[] | null;
};

export type PricesView = {
  input: number;
  output: number;
  cacheRead: number | null;
  cacheWrite: number | null;
  cacheWrite1H: number | null;
  reasoning: number | null;
  above: TierView[];
  services: ServiceRatesView[];
};

export type ProblemView = {
  severity: "error" | "warning";
  text: string;
  file: string;
  line: number;
  column: number;
  tool: string;
  path: string;
};

export type ProcessView = {
  id: number;
  command: string;
  startedAt: string;
  endedAt: string | null;
  running: boolean;
  exitCode: number | null;
  output: string;
};

export type ProcessesView = {
  chatId: number;
  processes: ProcessView[];
};

export type ProgramMode = {
  id: string;
  name: string;
  description: string;
};

export type ProgramStateView = {
  limits: UsageWindow[];
  modes: ProgramMode[];
};

export type PromptView = {
  id: number;
  prompt: string;
  isPaused: boolean;
  model: string;
  createdAt: string;
  notBefore?: string | null;
  outputSchema?: Record<string, unknown> | null;
};

export type PushKeys = {
  p256dh: string;
  auth: string;
};

export type PushRequest = {
  endpoint: string;
  keys: PushKeys;
};

export type PushStatusView = {
  available: boolean;
  problem: string;
  publicKey: string;
  subscribed: boolean;
};

export type QrText = {
  text: string;
};

export type QrView = {
  size: number;
  path: string;
};

export type QuantilesView = {
  p50: number | null;
  p95: number | null;
  p99: number | null;
};

export type QueueView = {
  chatId: number;
  prompts: PromptView[];
};

export type QuotaLimitView = {
  name: string;
  unit: "requests" | "tokens" | "usd";
  limit: number;
  used: number;
  reserved: number;
  remaining: number;
  resets: string | null;
  warn: number | null;
};

export type QuotaSpentView = {
  total: number;
  day: number;
  week: number;
  month: number;
};

export type QuotaView = {
  name: string;
  expires: string | null;
  zone: string;
  spent: QuotaSpentView;
  limits: QuotaLimitView[];
  further: SharedQuotaView[];
};

export type RaiseRequest = {
  until: string;
  limits?: NewKeyLimits;
};

export type RecentCallsView = {
  calls: number;
  successRate: number | null;
  timedCalls: number;
  headMsP50: number | null;
  headMsP95: number | null;
  firstTokenMsP50: number | null;
  firstTokenMsP95: number | null;
};

export type Recipe = {
  variables: RecipeVariable[];
  steps: RecipeStep[];
};

export type RecipeStep = {
  title: string;
  method: string;
  path: string;
  headers: Record<string, string>;
  body: unknown;
  expect: ExpectedResponse;
  save: Record<string, string>;
};

export type RecipeVariable = {
  name: string;
  meaning: string;
  default?: unknown;
};

export type ReissueRequest = {
  grace?: number;
};

export type ReleasedView = {
  chatId: number;
  branch: string;
  kept: boolean;
};

export type RemoteBotsView = {
  bots: BotView[];
};

export type RenameChat = {
  title: string;
};

export type RenderMarkdown = {
  text: string;
  keepBreaks?: boolean;
};

export type RenderedView = {
  html: string;
  cut: boolean;
};

export type ReplaceQueue = {
  prompts: ReplacementPrompt[];
};

export type ReplacementPrompt = {
  prompt: string;
  id?: number | null;
  isPaused?: boolean | null;
  notBefore?: string | null;
};

export type ReportView = {
  name: string;
  description: string;
};

export type ReportsView = {
  items: ReportView[];
};

export type RepriceRequest = {
  from: string;
  to: string;
  prices?: "catalogue" | "current";
};

export type RepricingSummaryView = {
  requests: number;
  changed: number;
  unpriced: number;
  before: number;
  after: number;
  change: number | null;
};

export type RequestDetailView = {
  request: RequestView;
  costs: BucketCostView[];
  bodies: BodiesView | null;
};

export type RequestPage = {
  corruptLines: number;
  items: RequestView[];
  next: string;
};

export type RequestView = {
  id: string;
  at: string;
  key: string;
  keyName: string;
  owner: string;
  tags: string[];
  endpoint: string;
  model: string;
  channel: string;
  supplierModel: string;
  fallback: string;
  tier: string;
  tries: number;
  failedTries: FailedTryView[];
  stream: boolean;
  status: number;
  outcome: "broken" | "failed" | "left" | "ok" | "refused";
  error: string;
  usage: UsageView;
  cost: number;
  was: number | null;
  priced: string;
  estimated: boolean;
  timings: TimingsView;
  received: number;
  sent: number;
  hidden: Record<string, number>;
};

export type RevocationResult = {
  revoked: string[];
  children: string[];
  revokedAccessKeys: AccessKeyRef[];
  accessKeys: AccessKeyRef[];
};

export type RewritePrompt = {
  prompt: string;
};

export type RunningReplyView = {
  turn: number;
  text: string;
  number: number;
  seq: number;
  thinking: string;
  thinkingNumber: number;
};

export type RunningToolView = {
  number: number;
  name: string;
  input: string;
  parent: number;
};

export type SampleText = {
  text: string;
  rule?: NewSecretRule | null;
};

export type Schedule = {
  name: string;
  cron: string;
  prompt: string;
  zone?: string;
  chat?: number | null;
  title?: string;
  model?: string;
  skill?: string;
  mode?: string;
  worktree?: boolean;
  budget?: number | null;
  output_schema?: Record<string, unknown> | null;
  paused?: boolean;
  missed?: "once" | "skip";
  overlap?: "queue" | "skip";
};

export type ScheduleRunView = {
  due: string;
  cause: string;
  state: string;
  startedAt: string | null;
  endedAt: string | null;
  missed: number;
  chatId: number | null;
  cost: number;
  note: string;
};

export type ScheduleRunsView = {
  runs: ScheduleRunView[];
};

export type ScheduleView = {
  name: string;
  cron: string;
  zone: string;
  description: string;
  prompt: string;
  chat: number | null;
  title: string;
  model: string;
  skill: string;
  mode: string;
  worktree: boolean;
  budget: number | null;
  output_schema: Record<string, unknown> | null;
  paused: boolean;
  missed: string;
  overlap: string;
  next: string | null;
  last: ScheduleRunView | null;
};

export type SchedulesView = {
  schedules: ScheduleView[];
};

export type SecretRulePage = {
  items: SecretRuleView[];
  next: string;
};

export type SecretRulePatch = {
  mode?: "block" | "hide" | "report" | null;
  enabled?: boolean | null;
  description?: string | null;
  regex?: string | null;
  group?: number | null;
  keywords?: string[] | null;
  entropy?: number | null;
  allow?: AllowPatch | null;
  value?: string | null;
  id?: unknown;
  kind?: unknown;
};

export type SecretRuleView = {
  id: string;
  kind: "built-in" | "pattern" | "value";
  mode: "block" | "hide" | "report";
  enabled: boolean;
  description: string;
  regex: string;
  group: number;
  keywords: string[];
  entropy: number;
  allow: AllowView;
  value: string;
};

export type SelectModel = {
  model: string;
  chatId?: number | null;
};

export type SelectSkill = {
  skill: string;
  chatId?: number | null;
};

export type SelectedModelView = {
  model: string;
  chatId: number | null;
};

export type SelectedSkillView = {
  skill: string;
  chatId: number | null;
};

export type ServiceLogEntryView = {
  n: number;
  at: string;
  level: "error" | "info" | "warning";
  kind: string;
  text: string;
  channel: string;
  key: string;
  remote: string;
};

export type ServiceRates = {
  input: number;
  output: number;
  cache_read?: number | null;
  cache_write?: number | null;
  cache_write_1h?: number | null;
  reasoning?: number | null;
  tier: string;
};

export type ServiceRatesView = {
  input: number;
  output: number;
  cacheRead: number | null;
  cacheWrite: number | null;
  cacheWrite1H: number | null;
  reasoning: number | null;
  tier: string;
};

export type SessionView = {
  kind: "key" | "nobody" | "user";
  user: string;
  role: "administrator" | "manager" | "nobody" | "viewer";
  xsrf: string;
  expiresAt: string | null;
};

export type SetLabels = {
  labels: string[];
};

export type SetSettings = {
  host?: string | null;
  port?: number | null;
  hosts?: string[] | null;
  trusted_proxies?: string[] | null;
  tls?: TlsFiles | null | null;
  workspace?: string | null;
  state?: string | null;
  agent_api_key?: string | null;
  admin_user?: string | null;
  admin_password_hash?: string | null;
  proxy_app_hash?: string | null;
  engine?: "acp" | "claude-code" | "codex" | "native" | "offline" | null;
  codex_command?: string[] | null;
  claude_command?: string[] | null;
  acp_command?: string[] | null;
  opencode_project?: "ignore" | "load" | null;
  approvals?: "ask" | "auto" | "deny" | null;
  approval_seconds?: number | null;
  approval_rules?: ApprovalRule[] | null;
  budget_per_chat?: number | null | null;
  budget_per_day?: number | null | null;
  turn_steps?: number | null;
  turn_seconds?: number | null;
  turn_cost?: number | null | null;
  silence_seconds?: number | null;
  on_interrupted?: "retry" | "stop" | null;
  max_parallel_turns?: number | null;
  worktree_setup?: string[] | null;
  worktree_setup_seconds?: number | null;
  drain_seconds?: number | null;
};

export type SettingStatus = {
  name: string;
  value: unknown;
  next: unknown;
  waits: boolean;
  file: unknown;
  default: unknown;
  source: string;
  restart: boolean;
  secret: boolean;
  role: "administrator" | "manager";
  description: string;
  schema: Record<string, unknown>;
};

export type SettingView = {
  name: string;
  value: unknown;
  default: unknown;
  description: string;
};

export type SettingsPatch = {
  host?: string | null;
  port?: number | null;
  hosts?: string[] | null;
  trusted_proxies?: string[] | null;
  tls?: NewTlsFilesSetting | null | null;
  workspace?: string | null;
  state?: string | null;
  agent_api_key?: string | null;
  engine?: "acp" | "claude-code" | "codex" | "native" | "offline" | null;
  codex_command?: string[] | null;
  claude_command?: string[] | null;
  acp_command?: string[] | null;
  opencode_project?: "ignore" | "load" | null;
  approvals?: "ask" | "auto" | "deny" | null;
  approval_seconds?: number | null;
  approval_rules?: NewApprovalRuleSetting[] | null;
  budget_per_chat?: number | null | null;
  budget_per_day?: number | null | null;
  turn_steps?: number | null;
  turn_seconds?: number | null;
  turn_cost?: number | null | null;
  silence_seconds?: number | null;
  on_interrupted?: "retry" | "stop" | null;
  max_parallel_turns?: number | null;
  worktree_setup?: string[] | null;
  worktree_setup_seconds?: number | null;
  drain_seconds?: number | null;
};

export type SettingsView = {
  settings: SettingStatus[];
  problems: ConfigProblem[];
};

export type SetupView = {
  workspace: string;
  default: string;
  engine: string;
  agents: InstalledAgentView[];
};

export type SharedQuotaView = {
  scope: "key" | "model" | "owner" | "tag";
  name: string;
  spent: SharedSpentView;
  limits: QuotaLimitView[];
};

export type SharedSpentView = {
  total: number | null;
  day: number;
  week: number;
  month: number;
};

export type SignIn = {
  user?: string | null;
  password?: string | null;
  code?: string | null;
  bearer?: boolean;
};

export type SignedInView = {
  user: string;
  role: "administrator" | "manager" | "nobody" | "viewer";
  xsrf: string;
  expiresAt: string;
  token: string | null;
};

export type SkillAppearanceView = {
  name: string;
  color?: string;
};

export type SkillSettingsView = {
  default: string;
  skills: SkillAppearanceView[];
};

export type SkillTextView = {
  name: string;
  description: string;
  source: string;
  color: string;
  default: boolean;
  text: string;
};

export type SkillView = {
  name: string;
  description: string;
  source: string;
  color: string;
  default: boolean;
};

export type SkillsView = {
  skills: SkillView[];
  default: string;
  problems: ConfigProblem[];
};

export type SoftLimitReport = {
  zone: string;
  items: PassedSoftLimitView[];
  next: string;
};

export type SoftLimitView = {
  name: string;
  amount: number;
  used: number;
  passed: boolean;
  resets: string | null;
};

export type SoftLimitsPatch = {
  total?: number | null;
  day?: number | null;
  week?: number | null;
  month?: number | null;
};

export type SoftLimitsView = {
  total: number | null;
  day: number | null;
  week: number | null;
  month: number | null;
};

export type SpeechEngineView = {
  name: string;
  engine: "command" | "openai" | "pocketsphinx";
  model: string;
  language: string;
  available: boolean;
  missing: string;
};

export type SpeechView = {
  default: string;
  maxSeconds: number;
  maxBytes: number;
  engines: SpeechEngineView[];
};

export type SpendLine = {
  name: string;
  title: string;
  requests: number;
  ok: number;
  streams: number;
  estimated: number;
  input: number;
  cacheRead: number;
  cacheWrite: number;
  output: number;
  reasoning: number;
  cost: number;
  cacheShare: number | null;
  received: number;
  sent: number;
  hidden: number;
};

export type SpendReport = {
  from: string;
  to: string;
  zone: string;
  by: string;
  total: SpendLine;
  items: SpendLine[];
  next: string;
};

export type SpenderReport = {
  from: string;
  to: string;
  zone: string;
  total: number;
  items: SpenderRowView[];
  next: string;
};

export type SpenderRowView = {
  key: string;
  title: string;
  requests: number;
  cost: number;
  share: number | null;
};

export type SpentView = {
  total: number;
  day: number;
  week: number;
  month: number;
  zone: string;
};

export type StagePaths = {
  paths: string[];
};

export type StartView = {
  me: MeView | null;
  chats: ChatsView;
  notable: ChatRow[];
  approvals: ApprovalsView;
  labels: LabelsView;
  models: ModelStatusList;
  skills: SkillsView;
};

export type StatusView = {
  chatId: number;
  status: "completed" | "processing" | "queued";
  title: string;
  createdAt: string;
  updatedAt: string;
  messageCount: number;
  totalCost: number;
  error: string;
};

export type StoppedView = {
  chatId: number;
  stopped: boolean;
};

export type SummaryView = {
  at: string;
  version: string;
  licence: LicenceShortView;
  zone: string;
  today: PeriodView;
  month: PeriodView;
  topModels: TopModelView[];
  channels: ChannelsView;
  models: number;
  keys: KeyCountsView;
  ledgerProblem: string;
  exportProblem: string;
  corruptDays: CorruptDayView[];
  dropped: DroppedView;
  problems: string[];
};

export type SupplierChoice = {
  dialect: "anthropic" | "openai-chat" | "openai-responses";
  url: string;
  key?: string;
  model?: string;
};

export type SwitchAutofix = {
  on?: boolean | null;
};

export type SwitchBuildFix = {
  on?: boolean | null;
  chatId?: number | null;
  tries?: number | null;
};

export type Tier = {
  input: number;
  output: number;
  cache_read?: number | null;
  cache_write?: number | null;
  cache_write_1h?: number | null;
  reasoning?: number | null;
  tokens: number;
};

export type TierView = {
  input: number;
  output: number;
  cacheRead: number | null;
  cacheWrite: number | null;
  cacheWrite1H: number | null;
  reasoning: number | null;
  tokens: number;
};

export type TimeReport = {
  from: string;
  to: string;
  zone: string;
  by: string;
  total: LatencyRowView;
  items: LatencyRowView[];
  next: string;
};

export type TimingsView = {
  ready: number;
  head: number;
  first: number;
  total: number;
};

export type TlsFiles = {
  certificate: string;
  key: string;
};

export type Tokens = {
  input: number;
  output: number;
};

export type ToolUseView = {
  input: string;
  outcome: string;
  ok: boolean;
  seconds: number;
  diff: string;
  number: number;
  parent: number;
};

export type TopModelView = {
  name: string;
  requests: number;
  cost: number;
};

export type TotalsView = {
  name: string;
  title: string;
  messages: MessageCountsView;
  tokens: Tokens;
  cost: number;
  turns: number;
  endings: EndingsView;
  turnSeconds: TurnTimeView | null;
  tools: Record<string, number>;
  days: DayTotalsView[] | null;
};

export type TracingSettingsPatch = {
  endpoint?: string | null;
  headers?: Record<string, string | null> | null;
  enabled?: boolean | null;
  sample?: number | null;
  forward_context?: boolean | null;
};

export type TranscriptView = {
  text: string;
  engine: string;
  seconds: number;
};

export type TrashView = {
  chats: TrashedRow[];
};

export type TrashedRow = {
  chat: ChatRow;
  deletedAt: string;
  restorableUntil: string;
};

export type TrialStep = {
  name: string;
  ok: boolean;
  detail: string;
};

export type TrialView = {
  ok: boolean;
  steps: TrialStep[];
  seconds: number;
  models: string[];
};

export type TurnStatusView = {
  turn: number;
  engine: string;
  model: string;
  since: string;
  lastActivity: string;
  pid: number;
  lastTool: string;
  tools: RunningToolView[];
};

export type TurnTimeView = {
  p50: number;
  p95: number;
};

export type UnhealthyChannelView = {
  name: string;
  state: string;
  cooldownSeconds: number;
  error: string;
  secondsSinceFailure: number;
  succeeded: number;
  failed: number;
  modelCooldowns: Record<string, number>;
};

export type UploadedView = {
  files: FileView[];
};

export type UsageView = {
  input: number;
  cacheRead: number;
  cacheWrite: number;
  cacheWrite1H: number;
  output: number;
  reasoning: number;
};

export type UsageWindow = {
  name: string;
  usedPercent: number;
  resetsAt: string | null;
};

export type UsedModelView = {
  model: string;
};

export type UserView = {
  name: string;
  role: "administrator" | "manager" | "viewer";
};

export type UsersView = {
  users: UserView[];
};

export type WholeMessageView = {
  id: number;
  role: "assistant" | "error" | "tool" | "user";
  content: string;
  tool: string;
  createdAt: string;
  tokens: Tokens;
  cost: number;
  toolUse: ToolUseView | null;
  decision: DecisionView | null;
  output: unknown;
  html: string | null;
  htmlCut: boolean;
};

export type WorkspaceHooksView = {
  id: string;
  source: string;
  hooks: HookView[];
  decision: "allowed" | "denied" | "undecided";
  decidedAt: string | null;
  decidedBy: string;
  isPresent: boolean;
};

export type WorkspaceSearchView = {
  files: string[];
  lines: LineView[];
  truncated: boolean;
};

export type WorktreeView = {
  chatId: number;
  step: "dropping" | "keeping" | "planned" | "ready" | "rebasing";
  branch: string;
  into: string;
  base: string;
  folder: string;
  ahead: number;
  behind: number;
  uncommitted: number;
  problem: string;
};

/** What each operation answers when it succeeds. */
export interface Answers {
  "GET /api/MessageQueue/{chatId}": QueueView;
  "POST /api/MessageQueue/{chatId}/hold": HeldView;
  "POST /api/MessageQueue/{chatId}/pause": QueueView;
  "POST /api/MessageQueue/{chatId}/release": HeldView;
  "POST /api/MessageQueue/{chatId}/resume": QueueView;
  "PUT /api/MessageQueue/{chatId}/{promptId}": PromptView;
  "POST /api/MessageQueue/{chatId}/{promptId}/move": QueueView;
  "POST /api/MessageQueue/{chatId}/{promptId}/pause": QueueView;
  "POST /api/MessageQueue/{chatId}/{promptId}/resume": QueueView;
  "GET /api/about": AboutView;
  "GET /api/agent": ManagementView;
  "GET /api/agent/alert-targets": AlertTargetPage;
  "POST /api/agent/alert-targets": AlertTargetView;
  "GET /api/agent/alert-targets/{name}": AlertTargetView;
  "PATCH /api/agent/alert-targets/{name}": AlertTargetView;
  "POST /api/agent/alert-targets/{name}/disable": AlertTargetView;
  "POST /api/agent/alert-targets/{name}/enable": AlertTargetView;
  "POST /api/agent/alert-targets/{name}/test": AlertTestView;
  "GET /api/agent/alerts": AlertPage;
  "GET /api/agent/budgets": BudgetPage;
  "POST /api/agent/budgets": BudgetView;
  "GET /api/agent/budgets/{name}": BudgetView;
  "PATCH /api/agent/budgets/{name}": BudgetView;
  "POST /api/agent/budgets/{name}/disable": BudgetView;
  "POST /api/agent/budgets/{name}/enable": BudgetView;
  "DELETE /api/agent/budgets/{name}/raise": BudgetView;
  "POST /api/agent/budgets/{name}/raise": BudgetView;
  "GET /api/agent/changes": ChangeRecordPage;
  "POST /api/agent/changes/{number}/undo": ChangeRecordView;
  "GET /api/agent/channels": ChannelPage;
  "POST /api/agent/channels": ChannelView;
  "POST /api/agent/channels/batch": BatchView;
  "POST /api/agent/channels/preview": ChannelPreview;
  "GET /api/agent/channels/{name}": ChannelView;
  "PATCH /api/agent/channels/{name}": ChannelView;
  "POST /api/agent/channels/{name}/balance": ChannelBalanceView;
  "POST /api/agent/channels/{name}/check": CheckView;
  "POST /api/agent/channels/{name}/copy": ChannelView;
  "POST /api/agent/channels/{name}/disable": ChannelView;
  "POST /api/agent/channels/{name}/enable": ChannelView;
  "GET /api/agent/channels/{name}/models": OfferView;
  "POST /api/agent/channels/{name}/models": CreatedModels;
  "GET /api/agent/channels/{name}/state": ChannelStateView;
  "GET /api/agent/export": ExportState;
  "POST /api/agent/export/backfill": BackfillPlan;
  "POST /api/agent/export/check": ExportCheck;
  "POST /api/agent/import": ImportView;
  "POST /api/agent/import/file": ImportFileView;
  "GET /api/agent/keys": AccessKeyPage;
  "POST /api/agent/keys": IssuedKeyView;
  "POST /api/agent/keys/batch": BatchView;
  "GET /api/agent/keys/{id}": AccessKeyView;
  "PATCH /api/agent/keys/{id}": AccessKeyView;
  "POST /api/agent/keys/{id}/disable": AccessKeyView;
  "POST /api/agent/keys/{id}/enable": AccessKeyView;
  "DELETE /api/agent/keys/{id}/raise": AccessKeyView;
  "POST /api/agent/keys/{id}/raise": AccessKeyView;
  "POST /api/agent/keys/{id}/reissue": IssuedKeyView;
  "GET /api/agent/leaks": LeakReport;
  "GET /api/agent/licence": LicenceStatusView;
  "PUT /api/agent/licence": LicenceStatusView;
  "GET /api/agent/management-keys": ManagementKeyPage;
  "POST /api/agent/management-keys": IssuedManagementKeyView;
  "GET /api/agent/management-keys/{name}": ManagementKeyView;
  "PATCH /api/agent/management-keys/{name}": ManagementKeyView;
  "POST /api/agent/management-keys/{name}/disable": ManagementKeyView;
  "POST /api/agent/management-keys/{name}/enable": ManagementKeyView;
  "GET /api/agent/models": GatewayModelPage;
  "POST /api/agent/models": GatewayModelView;
  "POST /api/agent/models/batch": BatchView;
  "GET /api/agent/models/{name}": GatewayModelView;
  "PATCH /api/agent/models/{name}": GatewayModelView;
  "POST /api/agent/models/{name}/check": CheckView;
  "POST /api/agent/models/{name}/copy": GatewayModelView;
  "POST /api/agent/models/{name}/disable": GatewayModelView;
  "POST /api/agent/models/{name}/enable": GatewayModelView;
  "POST /api/agent/models/{name}/prices": GatewayModelView;
  "GET /api/agent/openapi.json": Record<string, unknown>;
  "GET /api/agent/overview": OverviewView;
  "GET /api/agent/prices": CataloguePage;
  "GET /api/agent/prices/models": ComparisonPage;
  "POST /api/agent/prices/refresh": CatalogueView;
  "GET /api/agent/reports": ReportsView;
  "GET /api/agent/reports/by-channel": SpendReport;
  "GET /api/agent/reports/by-day": SpendReport;
  "GET /api/agent/reports/by-hour": SpendReport;
  "GET /api/agent/reports/by-key": SpendReport;
  "GET /api/agent/reports/by-model": SpendReport;
  "GET /api/agent/reports/by-owner": SpendReport;
  "GET /api/agent/reports/by-tag": SpendReport;
  "GET /api/agent/reports/cache-share": CacheReport;
  "GET /api/agent/reports/errors": ErrorReport;
  "GET /api/agent/reports/latency": TimeReport;
  "GET /api/agent/reports/leaks": LeakReport;
  "GET /api/agent/reports/limits": BurnReport;
  "GET /api/agent/reports/soft-limits": SoftLimitReport;
  "GET /api/agent/reports/top-spenders": SpenderReport;
  "GET /api/agent/reports/totals": SpendReport;
  "GET /api/agent/requests": RequestPage;
  "POST /api/agent/requests/reprice": RepricingSummaryView;
  "GET /api/agent/requests/{id}": RequestDetailView;
  "GET /api/agent/secret-rules": SecretRulePage;
  "POST /api/agent/secret-rules": SecretRuleView;
  "POST /api/agent/secret-rules/test": FindingsView;
  "GET /api/agent/secret-rules/{id}": SecretRuleView;
  "PATCH /api/agent/secret-rules/{id}": SecretRuleView;
  "POST /api/agent/secret-rules/{id}/disable": SecretRuleView;
  "POST /api/agent/secret-rules/{id}/enable": SecretRuleView;
  "GET /api/agent/service-log": NotePage;
  "POST /api/agent/session": CodeView;
  "GET /api/agent/settings": GatewaySettingsView;
  "PATCH /api/agent/settings": GatewaySettingsView;
  "GET /api/agent/settings/daemon": SettingsView;
  "PATCH /api/agent/settings/daemon": SettingsView;
  "GET /api/agent/summary": SummaryView;
  "GET /api/analytics": AnalyticsView;
  "GET /api/autofix/status": AutofixStatus;
  "POST /api/autofix/toggle": AutofixStatus;
  "POST /api/autofix/toggle/{name}": AutofixStatus;
  "GET /api/bots": BotSettingsList;
  "POST /api/bots": BotSettingsView;
  "GET /api/bots/{botId}": BotSettingsView;
  "PUT /api/bots/{botId}": BotSettingsView;
  "POST /api/bots/{botId}/check": BotCheckView;
  "GET /api/build/status": BuildsView;
  "GET /api/build/status/{name}": BuildDetailView;
  "POST /api/build/stop/{name}": BuildView;
  "POST /api/build/trigger/{name}": BuildView;
  "GET /api/chat-labels": LabelsView;
  "POST /api/chat-labels": Label;
  "PUT /api/chat-labels/{name}": Label;
  "GET /api/chat/approvals": ApprovalsView;
  "GET /api/chat/{chatId}": ChatAgentView;
  "GET /api/chat/{chatId}/approvals": ApprovalsView;
  "DELETE /api/chat/{chatId}/approvals/{approvalId}": ApprovalView;
  "POST /api/chat/{chatId}/approvals/{approvalId}": ApprovalView;
  "GET /api/chat/{chatId}/messages": HistoryView;
  "GET /api/chat/{chatId}/search": FoundMessagesView;
  "POST /api/chat/{chatId}/send": PromptView;
  "PUT /api/chat/{chatId}/settings": ChatSettingsView;
  "POST /api/chat/{chatId}/stop": StoppedView;
  "GET /api/chat/{chatId}/worktree": WorktreeView;
  "GET /api/chat/{chatId}/worktree/diff": DiffView;
  "POST /api/chat/{chatId}/worktree/drop": ReleasedView;
  "POST /api/chat/{chatId}/worktree/keep": ReleasedView;
  "POST /api/chat/{chatId}/worktree/merge": MergedView;
  "POST /api/chat/{chatId}/worktree/rebase": WorktreeView;
  "GET /api/chats": ChatsView;
  "POST /api/chats": ChatCreatedView;
  "GET /api/chats/trash": TrashView;
  "DELETE /api/chats/{chatId}": DeletedView;
  "GET /api/chats/{chatId}": ChatRow;
  "PUT /api/chats/{chatId}": ChatRow;
  "POST /api/chats/{chatId}/duplicate": ChatRow;
  "PUT /api/chats/{chatId}/labels": ChatRow;
  "GET /api/chats/{chatId}/processes": ProcessesView;
  "POST /api/chats/{chatId}/processes/{processId}/stop": ProcessView;
  "POST /api/chats/{chatId}/restore": ChatRow;
  "GET /api/commands": CommandsView;
  "POST /api/deploy/restart/{name}": DeploymentView;
  "POST /api/deploy/start/{name}": DeploymentView;
  "GET /api/deploy/status": DeploymentsView;
  "GET /api/deploy/status/{name}": DeploymentView;
  "POST /api/deploy/stop/{name}": DeploymentView;
  "GET /api/files": FilesView;
  "POST /api/files": UploadedView;
  "POST /api/files/clipboard": UploadedView;
  "POST /api/git/commit": CommitView;
  "GET /api/git/diff": DiffView;
  "GET /api/git/log": LogView;
  "POST /api/git/stage": GitStatusView;
  "GET /api/git/status": GitStatusView;
  "POST /api/git/unstage": GitStatusView;
  "GET /api/hooks": HooksView;
  "GET /api/keys": KeysView;
  "POST /api/keys": NewKeyView;
  "DELETE /api/keys/{name}": RevocationResult;
  "POST /api/keys/{name}/regenerate": NewKeyView;
  "GET /api/mcp-servers": McpServersView;
  "POST /api/mcp-servers": McpServerForm;
  "PUT /api/mcp-servers/{name}": McpServerForm;
  "POST /api/mcp-servers/{name}/check": McpServerCheckView;
  "GET /api/me": MeView;
  "PUT /api/me": MeView;
  "GET /api/me/push": PushStatusView;
  "PUT /api/me/push": PushStatusView;
  "GET /api/models": ModelStatusList;
  "POST /api/models": Model;
  "POST /api/models/select": SelectedModelView;
  "GET /api/models/{name}": Model;
  "PUT /api/models/{name}": Model;
  "GET /api/openapi.json": Record<string, unknown>;
  "POST /api/qr": QrView;
  "GET /api/remote/bots": RemoteBotsView;
  "POST /api/remote/chats": ChatCreatedView;
  "GET /api/remote/chats/{chatId}/messages": MessagesView;
  "GET /api/remote/chats/{chatId}/processes": ProcessesView;
  "POST /api/remote/chats/{chatId}/processes/{processId}/stop": ProcessView;
  "GET /api/remote/chats/{chatId}/queue": QueueView;
  "POST /api/remote/chats/{chatId}/queue": PromptView;
  "PUT /api/remote/chats/{chatId}/queue": QueueView;
  "PUT /api/remote/chats/{chatId}/queue/{promptId}": PromptView;
  "GET /api/remote/chats/{chatId}/status": StatusView;
  "POST /api/render": RenderedView;
  "GET /api/schedules": SchedulesView;
  "POST /api/schedules": ScheduleView;
  "PUT /api/schedules/{name}": ScheduleView;
  "POST /api/schedules/{name}/pause": ScheduleView;
  "POST /api/schedules/{name}/resume": ScheduleView;
  "POST /api/schedules/{name}/run": ScheduleRunView;
  "GET /api/schedules/{name}/runs": ScheduleRunsView;
  "GET /api/session": SessionView;
  "POST /api/session": SignedInView;
  "GET /api/sessions": LoginsView;
  "GET /api/settings/all": SettingsView;
  "POST /api/settings/set": SettingsView;
  "GET /api/setup": SetupView;
  "POST /api/setup/try": TrialView;
  "POST /api/setup/use": UsedModelView;
  "GET /api/skills": SkillsView;
  "GET /api/skills-settings": SkillSettingsView;
  "PUT /api/skills-settings": SkillSettingsView;
  "GET /api/skills/read/{name}": SkillTextView;
  "POST /api/skills/select": SelectedSkillView;
  "GET /api/speechrecognition/engines": SpeechView;
  "POST /api/speechrecognition/transcribe": TranscriptView;
  "GET /api/start": StartView;
  "GET /api/users": UsersView;
  "POST /api/users": UserView;
  "PUT /api/users/{name}": UserView;
  "GET /api/users/{name}/sessions": LoginsView;
  "GET /api/workspace/file": FileContentView;
  "GET /api/workspace/folder": FolderView;
  "GET /api/workspace/search": WorkspaceSearchView;
  "GET /healthz": Health;
  "POST /mcp": { jsonrpc: "2.0"; id?: string | number; method?: string; params?: Record<string, unknown>; result?: Record<string, unknown>; error?: Record<string, unknown> };
  "POST /v1/chat/completions": { id: string; object?: "chat.completion"; model?: string; choices: (Record<string, unknown>)[]; usage?: Record<string, unknown> };
  "POST /v1/completions": { id: string; object?: "text_completion"; model?: string; choices: (Record<string, unknown>)[]; usage?: Record<string, unknown> };
  "POST /v1/embeddings": { data: (Record<string, unknown>)[]; model?: string; usage?: Record<string, unknown> };
  "POST /v1/messages": { id: string; type?: "message"; role?: "assistant"; model?: string; content: (Record<string, unknown>)[]; stop_reason?: string | null; usage?: Record<string, unknown> };
  "POST /v1/messages/count_tokens": { input_tokens: number };
  "GET /v1/models": { object: "list"; data: ({ id: string; object: "model"; created?: number; owned_by?: string })[] } | { has_more: false; data: ({ id: string; type: "model"; display_name?: string; created_at?: string })[] } | { models: ({ name: string; displayName?: string; inputTokenLimit?: number; outputTokenLimit?: number })[] };
  "GET /v1/models/{name}": { id: string; object: "model"; created?: number; owned_by?: string } | { id: string; type: "model"; display_name?: string; created_at?: string } | { name: string; displayName?: string; inputTokenLimit?: number; outputTokenLimit?: number };
  "POST /v1/models/{name}": { candidates: (Record<string, unknown>)[]; usageMetadata?: Record<string, unknown> } | { totalTokens: number } | { embedding: Record<string, unknown>; usageMetadata?: Record<string, unknown> } | { embeddings: (Record<string, unknown>)[]; usageMetadata?: Record<string, unknown> };
  "GET /v1/quota": QuotaView;
  "POST /v1/responses": { id: string; object?: "response"; status?: string; output: (Record<string, unknown>)[] };
  "GET /v1beta/models": { models: ({ name: string; displayName?: string; inputTokenLimit?: number; outputTokenLimit?: number })[] };
  "GET /v1beta/models/{name}": { name: string; displayName?: string; inputTokenLimit?: number; outputTokenLimit?: number };
  "POST /v1beta/models/{name}": { candidates: (Record<string, unknown>)[]; usageMetadata?: Record<string, unknown> } | { totalTokens: number } | { embedding: Record<string, unknown>; usageMetadata?: Record<string, unknown> } | { embeddings: (Record<string, unknown>)[]; usageMetadata?: Record<string, unknown> };
}
