/** What the agent asks, in one line. */

/** @typedef {import("./chats.js").Approval} Approval */

/**
 * The question of a card's head, and of a chat's row.
 * @param {Approval} question
 */
export function questionTitle(question) {
  switch (question.kind) {
    case "shell": return "Run this command?";
    case "write": return "Change a file of the workspace?";
    case "outside": return "Change a file outside the workspace?";
    case "read": return "Read this file?";
    case "network": return "Open this address?";
    case "question": return "The agent asks you";
    case "budget": return "Spend more than the limit?";
    default: return `Use ${question.tool || "this tool"}?`;
  }
}
