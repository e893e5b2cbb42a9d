// Integers, times and durations: as the API writes them, and as people read them.

export const HOUR = 3_600_000;

/** Return the number of a BigInt, or itself beyond 2^53, where numbers have gaps. */
export const narrowed = (big) => (Number.isSafeInteger(Number(big)) ? Number(big) : big);

/** Read JSON; its objects inherit nothing, so no name means what all objects have, such as `toString`. */
export const parsed = (json) =>
  JSON.parse(json, (_, value, context) => {
    if (value instanceof Object && !Array.isArray(value)) return Object.setPrototypeOf(value, null);
    const isLong = Number.isInteger(value) && /^-?\d{16,}$/.test(context?.source);
    return isLong ? narrowed(BigInt(context.source)) : value;
  });

export const written = (body) =>
  JSON.stringify(body, (_, value) => (typeof value === "bigint" ? JSON.rawJSON(String(value)) : value));

export const minus = (one, other) => narrowed(BigInt(one) - BigInt(other));
export const least = (values) => values.reduce((one, other) => (other < one ? other : one));
export const greatest = (values) => values.reduce((one, other) => (other > one ? other : one));

/** Return where a value lies from `low`, 0, to `high`, 1. */
export const share = (value, low, high) => Number(minus(value, low)) / Math.max(1, Number(minus(high, low)));

export const isUnix = (time) => time >= 31_536_000_000 && time < 7_258_118_400_000;

/** Return a moment in the reader's zone, without its day if that is today. */
export function localText(ms) {
  const swedish = (date) => date.toLocaleString("sv-SE").split(" "); // which writes as ISO 8601 does
  const [day, time] = swedish(new Date(ms));
  return day === swedish(new Date())[0] ? time : `${day} ${time}`;
}

const UNITS = { d: 86_400_000, h: HOUR, m: 60_000, s: 1000, ms: 1 };

/** Return a duration by its `parts` largest units, as the command line writes it: "1h 5m"; below 0 it is "0s". */
export function lasting(ms, parts = 2) {
  const units = Object.entries(UNITS).slice(0, parts === 2 && ms >= 1000 ? 4 : 5);
  const first = units.findIndex(([, size]) => ms >= size);
  let rest = Math.round(Number(ms));
  const counts = units.map(([unit, size]) => {
    const count = Math.floor(rest / size);
    rest -= count * size;
    return count > 0 && `${count}${unit}`;
  });
  return counts.slice(first, first + parts).filter(Boolean).join(" ") || "0s";
}

/** Return how far apart two times are that are like `time`. */
export const apart = (ms, time) => (isUnix(time) ? lasting(ms) : ms);

/** Read "1h 30m"; returns ms, NaN if it is not a duration. */
export function durationMs(text) {
  const parts = text.trim().split(/\s+/).map((part) => /^(\d+)(ms|[smhd])$/.exec(part));
  return parts.reduce((sum, part) => (part ? sum + part[1] * UNITS[part[2]] : NaN), 0);
}

export const inWords = (name) => name.replaceAll("_", " ");
export const counted = (count) => count.toLocaleString("en");
export const many = (count, one) => `${counted(count)} ${one}${count === 1 ? "" : "s"}`;
export const listed = (names) =>
  names.length < 2 ? (names[0] ?? "no writer") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
export const shownPosition = (position) =>
  Object.entries(position).map(([segment, offset]) => `${segment}:${offset}`).join(" ") || "–";
