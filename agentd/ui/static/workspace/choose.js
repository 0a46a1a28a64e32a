/** What is chosen of a list that stands beside it; on a phone it covers the list, to which Back then leads. */

import { navigate, path, setQuery } from "../core/router.js";

const narrow = matchMedia("(max-width: 720px)");

/** @param {Record<string, string | null>} changes of what stands behind the question mark */
export function choose(changes) {
  if (!narrow.matches) return setQuery(changes);
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  return void navigate(`${path.peek()}?${query}`);
}
