/**
 * Colours code without a node for each word: the browser paints ranges of the text (CSS Custom
 * Highlights). What it understands is what most languages share; long code stays plain.
 */

const LONGEST = 64_000;
const MOST_RANGES = 30_000;
/** Quotes without an end, each of which costs a look at the rest of its line. */
const MOST_UNCLOSED = 200;

/** @typedef {"keyword" | "string" | "comment" | "number" | "name"} Kind */

const WORDS = new Set((
  "abstract and as assert async await bool boolean break case catch class const constexpr continue def default defer del do " +
  "elif else end enum except export extends extern false final finally fn for from func function global go if impl implements " +
  "import in interface internal is lambda let local loop match mod module mut namespace new nil none None not null nonlocal of " +
  "or override package pass private protected pub public raise return self static struct super switch then this throw throws " +
  "trait true True False try type typeof union unless until unsafe use using var virtual void where while with yield " +
  "select insert update delete create table join group order by SELECT FROM WHERE INSERT UPDATE DELETE CREATE TABLE JOIN GROUP " +
  "ORDER BY AND OR NOT NULL AS ON"
).split(" "));

/** What begins a comment to the end of its line, by language; else both kinds. */
const HASH = new Set([
  "python", "py", "sh", "bash", "shell", "zsh", "yaml", "yml", "toml", "ruby", "rb",
  "make", "dockerfile", "ini", "cfg", "conf", "service", "pl", "r",
]);
const DASH = new Set(["sql", "lua", "haskell", "hs"]);
/** Prose and output, which have no words to colour. */
const PLAIN = new Set(["text", "txt", "md", "markdown", "console", "output", "log", "csv"]);

/** @type {Map<Kind, any>} */
const highlights = new Map();
const registry = /** @type {any} */ (CSS).highlights;
const Highlight = /** @type {any} */ (globalThis).Highlight;

/**
 * Colour the text of some elements, each one by itself.
 * @param {Iterable<Element>} elements
 * @param {string} language as behind a fence, or the end of a file's name
 */
export function colour(elements, language) {
  const known = language.toLowerCase();
  if (!registry || PLAIN.has(known)) return;
  for (const element of elements) {
    const text = element.firstChild;
    if (!(text instanceof Text) || text.length > LONGEST) continue;
    for (const [kind, start, end] of tokens(text.data, known)) {
      const range = new StaticRange({ startContainer: text, startOffset: start, endContainer: text, endOffset: end });
      highlightOf(kind).add(range);
    }
  }
}

/**
 * The words of a piece of code that have a colour; each character is looked at a few times at most.
 * @param {string} text
 * @param {string} language
 * @returns {Generator<[Kind, number, number]>}
 */
export function* tokens(text, language) {
  const comment = HASH.has(language) ? "#" : DASH.has(language) ? "--" : "//";
  const pattern = /"""|'''|\/\*|\/\/|--|#|["'`]|\b\d[\w.]*|[A-Za-z_$][\w$]*/g;
  let unclosed = 0;
  for (let found = pattern.exec(text); found; found = pattern.exec(text)) {
    const [word] = found;
    const at = found.index;
    let end = pattern.lastIndex;
    /** @type {Kind | null} */
    let kind = null;
    if (word === comment) {
      kind = "comment";
      end = endOf(text, "\n", at, 0);
    } else if (word === "/*" && comment !== "#") {
      kind = "comment";
      end = endOf(text, "*/", at + 2, 2);
    } else if (word === '"""' || word === "'''") {
      kind = "string";
      end = endOf(text, word, at + 3, 3);
    } else if (word === '"' || word === "'" || word === "`") {
      kind = "string";
      end = endOfString(text, at, word);
      if (end < 0 && ++unclosed > MOST_UNCLOSED) return;
      if (end < 0) continue;
    } else if (/^\d/.test(word)) {
      kind = "number";
    } else if (WORDS.has(word)) {
      kind = "keyword";
    } else if (text[end] === "(") {
      kind = "name";
    }
    pattern.lastIndex = end;
    if (kind) yield [kind, at, end];
  }
}

/**
 * @param {string} text
 * @param {string} mark
 * @param {number} from
 * @param {number} length
 */
function endOf(text, mark, from, length) {
  const found = text.indexOf(mark, from);
  return found < 0 ? text.length : found + length;
}

/**
 * Where a string ends; -1: not on its line, so that it is an apostrophe.
 * @param {string} text
 * @param {number} at
 * @param {string} quote
 */
function endOfString(text, at, quote) {
  for (let index = at + 1; index < text.length; index++) {
    if (text[index] === "\\") index++;
    else if (text[index] === quote) return index + 1;
    else if (text[index] === "\n" && quote !== "`") return -1;
  }
  return -1;
}

/** @param {Kind} kind */
function highlightOf(kind) {
  let known = highlights.get(kind);
  if (!known) {
    known = new Highlight();
    highlights.set(kind, known);
    registry.set(`code-${kind}`, known);
  }
  if (known.size >= MOST_RANGES) {
    for (const range of known) if (!range.startContainer.isConnected) known.delete(range);
  }
  return known;
}
