// Reads and writes integers, times and durations, for the API and for people.

export const HOUR = 3_600_000;
export const DAY = 24 * HOUR;

/** Return a BigInt as a number if that is exact, or else unchanged. */
export const narrowed = (big) => (Number.isSafeInteger(Number(big)) ? Number(big) : big);

/** Parse JSON. Its objects inherit nothing, so a name such as `toString` is only found if it is in the JSON. */
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

/** Return the position of a value between `low` (0) and `high` (1). */
export const share = (value, low, high) => Number(minus(value, low)) / Math.max(1, Number(minus(high, low)));

export const isUnix = (time) => time >= 31_536_000_000 && time < 7_258_118_400_000;

const ZONE_KEY = "noted-time-zone";
const OWN_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;
/** The zones that the user can choose: UTC, and the browser's zone. */
export const ZONES = [...new Set(["UTC", OWN_ZONE])];
export const chosenZone = () => ZONES.find((zone) => zone === localStorage.getItem(ZONE_KEY)) ?? "UTC";
export const chooseZone = (zone) => localStorage.setItem(ZONE_KEY, zone);

const FORMATS = Object.fromEntries(ZONES.map((timeZone) => [timeZone, {
  // the Swedish locale writes ISO 8601
  moment: new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short", timeStyle: "medium" }),
  name: new Intl.DateTimeFormat("en-GB", { timeZone, timeZoneName: "short" }),
}]));
const momentText = (ms) => FORMATS[chosenZone()].moment.format(Number(ms));

/** Return a moment in the chosen zone. Omit the day if it is today. */
export function zonedText(ms) {
  const [day, time] = momentText(ms).split(" ");
  return day === momentText(Date.now()).split(" ")[0] ? time : `${day} ${time}`;
}

/** Return the short name of the chosen zone at a moment: "UTC", "CEST". */
export const zoneName = (ms) =>
  FORMATS[chosenZone()].name.formatToParts(Number(ms)).find(({ type }) => type === "timeZoneName").value;

/** Return how far the chosen zone is ahead of UTC at a moment, in ms. */
export const zoneOffset = (ms) =>
  Date.parse(`${momentText(ms).replace(" ", "T")}Z`) - Math.floor(Number(ms) / 1000) * 1000;

const UNITS = { d: 86_400_000, h: HOUR, m: 60_000, s: 1000, ms: 1 };

/** Return a duration in its `parts` largest units, as the command line does: "1h 5m". Below 0, return "0s". */
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

export const LEAST_LEAD = 5000; // LEAST_LEAD_MS of noted_time
const YEAR = 365 * UNITS.d;
/** Return whether a lag says something. One of a year or more comes from a replay of old events. */
export const isLag = (ms) => ms != null && ms < YEAR;
export const lagText = (ms) => (isLag(ms) ? lasting(ms) : "–");

/** Return a difference between times like `time`, as a duration if they are Unix ms. */
export const apart = (ms, time) => (isUnix(time) ? lasting(ms) : ms);

/** Return the ms of a duration such as "1h 30m", or NaN if it is not valid. */
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
