/** A program with its arguments as one line: quoted as a shell reads it, without anything else of a shell. */

/**
 * The words of a line; throws where a quotation mark is not closed.
 * @param {string} line
 */
export function splitWords(line) {
  const words = [];
  const pattern = /(?:'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|([^\s'"\\]+))/sy;
  let word = "";
  let rest = line.trim();
  while (rest) {
    pattern.lastIndex = 0;
    const found = pattern.exec(rest);
    if (!found) throw new Error("A quotation mark is not closed");
    const [all, single, double, escaped, plain] = found;
    word += single ?? double?.replace(/\\(["\\$`])/g, "$1") ?? escaped ?? plain ?? "";
    rest = rest.slice(all.length);
    if (/^(?:\s|$)/.test(rest)) {
      words.push(word);
      word = "";
      rest = rest.trimStart();
    }
  }
  return words;
}

/**
 * The line that `splitWords` reads as these words.
 * @param {readonly string[]} words
 */
export function joinWords(words) {
  return words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)).join(" ");
}
