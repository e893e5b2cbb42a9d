// What an operator's change would do, in words.

import { said, whenInZone } from "./parts.js";
import { get, state } from "./state.js";
import { greatest, lasting, least, minus, narrowed } from "./values.js";

/** Return the explanation of each domain, with a dry run. */
export const explained = (query) => Promise.all(
  state.data.stream.domains.map((name) => get(["explain"], { ...query, domain: name, limit: 1 })));

/** Return the controller's sentences about its decisions and the dry runs. */
export const wouldText = (explanations) =>
  explanations.flatMap(({ sentences }) => [said(sentences[0]), said(sentences.at(-1))]);

/** Return whether the dry run has the decision of now. */
function isUnmoved({ decision, lower, next_lower: next, dry_run: would }) {
  const now = decision === "advance" ? next : lower;
  return would.decision === decision && would.lower === now && !would.excluded.length;
}

/** Return what the removal of a writer changes if no watermark moves, or null. */
export async function unmovedText(explanations, { writer, times, vouching }) {
  if (!explanations.every(isUnmoved)) return null;
  const { domains, marks } = await get([]);
  const isCounted = (name) => vouching[name]?.some(({ from_seq: seq }) => seq <= (marks[name]?.seq ?? 0));
  const ends = domains.filter((name) => name in times && isCounted(name));
  const still = "The watermark does not move by this; ";
  if (!ends.length) return `${still}no mark counts ${writer} yet, so ${writer} then vouches for nothing.`;
  const name = (domain) => (domains.length > 1 ? ` (${domain})` : "");
  const parts = ends.flatMap((domain, place) => [place ? " and " : "", whenInZone(times[domain]), name(domain)]);
  return [`${still}${writer} then vouches to `, ...parts, " only."];
}

const timeoutOf = ({ timeout_ms: own }) => own ?? state.data.stream.writer_timeout_ms;

/** Return twice the timeout of a writer, or an hour if that is longer, at most `longest`. */
export const proposedMs = (row, longest) =>
  least([greatest([3_600_000, narrowed(2n * BigInt(timeoutOf(row)))]), longest]);

/** Return why a suspension for so long changes nothing, or null. */
export function needlessText(row, forMs, now) {
  const { silent_ms: silent, suspension_ends_at: until } = row;
  if (silent == null || until > now) return null;
  const left = minus(timeoutOf(row), silent);
  if (forMs > left) return null;
  return `This changes nothing: ${row.writer} was heard ${lasting(silent)} ago, and its timeout of `
    + `${lasting(timeoutOf(row))} ends in ${lasting(left)} at the earliest.`;
}
