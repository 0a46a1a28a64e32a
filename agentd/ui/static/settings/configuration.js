/** The group Configuration: access keys, people, problems of files, this address. */

import { may } from "../core/api.js";
import { addressCard } from "./address_card.js";
import { settingsPage } from "./frame.js";
import { keysCard } from "./keys_card.js";
import { peopleCard } from "./people_card.js";
import { problemsCard } from "./problems_card.js";

/** @returns {import("../core/router.js").Page} */
export function page() {
  return settingsPage("Configuration", keysCard(), may("administrator") ? peopleCard() : null, problemsCard(), addressCard());
}
