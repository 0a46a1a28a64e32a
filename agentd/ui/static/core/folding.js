/** Texts as they are compared: in any case of letters, and however their accents are written; as the daemon's search does. */

/**
 * The form in which equal texts are equal.
 * @param {string} text
 */
export function foldText(text) {
  return text.normalize("NFC").toUpperCase().toLowerCase().replaceAll("ς", "σ").normalize("NFC");
}
