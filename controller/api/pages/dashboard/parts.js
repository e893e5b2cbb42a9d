// The parts of views: times, states, buttons, forms and tables.

import { term } from "./definitions.js";
import { h } from "./elements.js";
import { apart, counted, inWords, isUnix, lasting, many, minus, written, zonedText, zoneName } from "./values.js";

export const soft = (...parts) => h("span.soft", parts);

/** Return a time in the chosen zone, with UTC on hover. `suffix` makes a text that stays on the line of the clock. */
export function when(time, suffix = () => "") {
  if (time == null) return soft("–");
  if (!isUnix(time)) return h("span.n", String(time));
  const iso = new Date(time).toISOString();
  const title = `${iso.replace(/[TZ]/g, " ")}UTC`;
  const [clock, day] = zonedText(time).split(" ").reverse();
  return h("time", { datetime: iso, title }, day && `${day} `, h("span.n", `${clock}${suffix(time)}`));
}
/** Return a time with the name of the chosen zone, for headlines and sentences. */
export const whenInZone = (time) => when(time, (ms) => ` ${zoneName(ms)}`);

const MOMENT = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/;
/** Return a sentence of the controller, with its moments in the chosen zone. */
export const said = (sentence) =>
  sentence.split(MOMENT).map((part, place) => (place % 2 ? whenInZone(Date.parse(part)) : part));

/** Return a time and its distance from another: "10:30 (+65m)". */
export function whenBeyond(time, from) {
  if (time == null || from == null || time === from) return when(time);
  const text = time > from ? `+${apart(minus(time, from), time)}` : `−${apart(minus(from, time), time)}`;
  return [when(time), ` (${text})`];
}

const KINDS = { live: "ok", open: "ok", truncated: "warn", excluded: "bad" };
export const pill = ([text, kind = KINDS[text] ?? ""]) => h("span", { class: `pill ${kind}` }, text);

const dataOf = (data) => Object.entries(data).map(([name, value]) => ({ [`data-${name}`]: value }));
/** A button for an action of dashboard.js, with its `data`. */
export const button = (label, act, data = {}, given) =>
  h("button", { type: "button", "data-act": act, ...given }, dataOf(data), label);
/** A button that changes the view. If `isChosen` is set, it is one of several alternatives. */
export const chooser = (label, choice, isChosen, given) =>
  button(label, "choose", { choice: written(choice) },
    { "aria-pressed": isChosen == null ? null : String(isChosen), ...given });

export const searchBox = (label) =>
  h("input", { type: "search", "aria-label": label, placeholder: "Search", autocomplete: "off" });
export const input = (id, given) => h("input", { id, name: id, required: true, autocomplete: "off", ...given });
export const labelled = (label, field, hint) =>
  [h("label", { for: field.id }, label), field, hint && h("p.hint", hint)];

/** Open a dialog with a form. `submitted` may keep it open with `event.preventDefault()`. */
export function open(title, parts, verb, submitted) {
  const buttons = h("div.buttons", button("Cancel", "cancel"), verb);
  const dialog = h("dialog", { "aria-label": title }, h("form", { method: "dialog" }, h("h2", title), parts, buttons));
  dialog.onclose = () => dialog.remove();
  dialog.firstChild.onsubmit = submitted;
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** The heading of a view. A new view gives it the focus. */
export const heading = (text) => h("h1", { tabindex: -1 }, text);

export const jumps = (sections) => h("nav.jumps", { "aria-label": "Sections" },
  sections.filter(Boolean).map(({ ariaLabel: label }) =>
    button(label, "jump", { section: label }, { class: "quiet" })));

/** The words of the glossary that explain titles and columns. */
const WORDS_OF_LABELS = {
  Ledger: "ledger", Segments: "segment", Watermark: "watermark", "Upper bound": "upper bound", Lag: "lag",
  "Lag before": "lag", Without: "missing", "Held back by": "hold back", Writers: "member", Noted: "note",
  "Times out in": "timed out", "Without it": "dry run", Missing: "missing", "Late rows": "late rows",
  Segment: "segment", "Noted by": "note", "Time window": "time window",
};
const explained = (label) => (WORDS_OF_LABELS[label] ? term(label, WORDS_OF_LABELS[label]) : label);

/** A section of the page. If `extras` is not null, its title shows the label and the extras. */
export const section = (label, extras, ...children) =>
  h("section", { "aria-label": label, tabindex: -1 },
    extras && h("div.title", h("h2", explained(label)), extras), children);
export const tr = (key, ...cells) => h("tr", { "data-key": key }, cells);
/** A cell for "Column.class.class". A narrow page shows the column's name, unless the class is `bare`. */
export const cell = (kind, ...children) => {
  const [label, ...classes] = kind.split(".");
  return h(["td", ...classes].join("."), { "data-label": label }, children);
};

/** A table, or the sentence `none` if it has no rows. Columns get their names from `heads` or the first row. */
export const table = (label, rows, none, heads = {}) => {
  if (!rows.length) return h("p.empty", none);
  const columns = [...rows[0].cells].map(({ dataset, classList }) => {
    const classes = ["num", "act"].filter((name) => classList.contains(name));
    return h(["th", ...classes].join("."), { scope: "col" }, heads[dataset.label] ?? explained(dataset.label));
  });
  const parts = [h("thead", h("tr", columns)), h("tbody", rows)];
  return h("div.wide", h("table.stack", { "aria-label": label }, parts));
};

/** Buttons to the previous and next page. `name` is the key of the page in `chosen`. */
export function pages(name, { start = 0, shown, total, next, size }) {
  if (!start && next == null) return null;
  const range = `${start + 1}–${start + shown}${total == null ? "" : ` of ${counted(total)}`}`;
  return h("div.pages", h("span.soft.n", range),
    chooser("Previous", { [name]: Math.max(0, start - size) }, null, { disabled: !start }),
    chooser("Next", { [name]: next }, null, { disabled: next == null }));
}

export const andOthers = (count, what) => (count > 1 ? ` and ${many(count - 1, what)}` : "");

/** The conditions of streams with their colours, the worst first. */
export const CONDITIONS = {
  missing: "bad", held_back: "warn", silent: "warn",
  waiting: "", unmarked: "", advancing: "ok", quiet: "", sealed: "", ended: "",
};
const CONDITION_WORDS = { missing: "silent", unmarked: "no mark yet", ended: "silent" };

export const isWaiting = ({ condition }) => /held_back|waiting/.test(condition);

/** Return the condition of a domain as a text and its colour. */
export function conditionText({ condition, held_back_ms: heldBack, times_out_in_ms: left }) {
  if (condition == null) return ["no answer", "bad"];
  const colour = condition === "held_back" && heldBack > 2 * (left ?? Infinity) ? "bad" : CONDITIONS[condition];
  if (isWaiting({ condition })) return [`${inWords(condition)} ${lasting(heldBack)}`, colour];
  return [CONDITION_WORDS[condition] ?? condition, colour];
}

export function writerCounts(counts) {
  const present = Object.entries(counts).filter(([, count]) => count);
  return h("span.counts", present.map(([name, count]) => pill([`${counted(count)} ${name}`, KINDS[name]])));
}
