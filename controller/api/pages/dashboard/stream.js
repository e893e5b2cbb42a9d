// The view of one stream: its watermark, the reason for it, and all details.

import { term } from "./definitions.js";
import { h } from "./elements.js";
import { historySection } from "./history.js";
import {
  button, cell, chooser, conditionText, heading, jumps, pages, pill, said, section, soft, table, tr, when,
  whenBeyond, whenInZone, writerCounts,
} from "./parts.js";
import { address, chosen, domain, mayAdminister, PAGE, state } from "./state.js";
import { readersSection, scaleOf, writersSection } from "./strip.js";
import { counted, inWords, isLag, isUnix, lasting, LEAST_LEAD, listed, many, shownPosition } from "./values.js";

export function streamView(data) {
  const scale = scaleOf(data);
  const first = [
    whySection(data), writersSection(data, scale), historySection(data.history), windowsSection(data.windows),
  ];
  const pair = [readersSection(data, scale), segmentsSection(data)];
  const last = [ledgerSection(data), settingsSection(data.stream)];
  return [
    h("div.head", h("a", { href: "#/" }, "Streams"), soft("/"), heading(state.name), domainTabs(data.stream),
      conditionPills(data), mayAdminister() && manageMenu(data.stream), jumps([...first, ...pair, ...last])),
    first, h("div.pair", pair), last,
  ];
}

/** The actions. Each writer's are in its row, which shows them while the menu is open: see dashboard.css. */
const manageMenu = ({ seal }) => h("details.manage", { "data-key": "manage" }, h("summary", "Manage…"),
  h("div.counts", button("Edit settings…", "settings"), button("Truncate…", "truncate"),
    !seal && button("Seal…", "seal"), soft("Each writer’s actions are in its row of the table.")));

const domainTabs = ({ domains }) => domains.length > 1 && h("nav.tabs", { "aria-label": "Domains" },
  domains.map((name) =>
    h("a", { href: address(state.name, name), "aria-current": name === domain() && "page" }, name)));

function conditionPills({ explain, writers: { states } }) {
  const [text, colour] = conditionText({ ...explain, ...explain.waiting_for[0] });
  const word = WORDS_OF_CONDITIONS[explain.condition];
  return h("span.counts", pill([word ? term(text, word) : text, colour]), writerCounts(states));
}

/** The words of the glossary that explain the conditions of a stream. */
const WORDS_OF_CONDITIONS = {
  held_back: "hold back", waiting: "wait", missing: "missing", silent: "excluded", ended: "excluded",
  unmarked: "mark", advancing: "advance", quiet: "quiet", sealed: "sealed",
};

const ALL_FINISHED = "All writers have finished. If none follows, seal the stream to complete its last window.";

const isOver = ({ explain, writers: { states } }) =>
  explain.condition === "quiet" && states.finished > 0 && !states.live && !states.idle && !states.excluded;

function whySection(data) {
  const { explain } = data;
  const { lower, now, sentences, hints, dry_run: dryRun, vouched } = explain;
  const lag = isUnix(lower) ? now - lower : null;
  const isHint = (line) => hints.some(({ writer, detail }) => line === `${writer} ${detail}`);
  const rest = sentences.slice(2, dryRun ? -1 : undefined);
  const folded = rest.filter((line) => !isHint(line));
  const paragraphs = (lines) => lines.map((line) => h("p", said(line)));
  return section("Why", null, h("div.why",
    h("div", h("div.soft", term("Watermark")), h("div.big", whenInZone(lower)),
      h("div.soft.n", isLag(lag) ? clockText(lag, data.stream) : ""),
      vouched && h("div.soft.n", vouchedText(vouched))),
    h("div.said", paragraphs([...sentences.slice(0, 2), ...rest.filter(isHint)]),
      isOver(data) && h("p", ALL_FINISHED),
      dryRun && h("p", "What if without ", h("strong", listed(chosen.picked)), "? ", said(sentences.at(-1))),
      folded.length > 0 && h("details", { "data-key": "more" }, h("summary", "More"), paragraphs(folded)))));
}

/** Return how far the watermark is behind the clock or, if its times are of this clock, ahead of it. */
const clockText = (lag, { max_time_ahead_ms: bound }) =>
  bound != null && -lag > LEAST_LEAD ? `${lasting(-lag)} ahead of the clock` : `${lasting(lag)} behind the clock`;

/** Return how many writers vouch for the lower. */
const vouchedText = ({ count, expected, expected_vouching: vouching }) =>
  expected ? `by ${counted(vouching)} of ${many(expected, "expected writer")}`
    : `by ${many(count, "writer")}, none expected`;

function windowsSection({ windows, isDaily }) {
  const lastWindows = windows.filter((window) => !window.before_first_mark).slice(-12).reverse();
  const rows = lastWindows.map((window) =>
    tr(`w${window.start}`, cell("From", when(window.start)), cell("To", when(window.end)),
      cell("Missing", missingText(window)), cell("Late rows", lateText(window))));
  const extras = [soft("writers that the watermark did not wait for, and rows written below it")];
  const title = `Complete ${isDaily ? "days" : "hours"}`;
  return rows.length > 0 && section(title, extras, table(title, rows));
}

const missingText = ({ missing_writers: missing, missing_count: count, missing_is_known: isKnown }) =>
  writersText(missing.map((absence) => `${absence.writer} (${inWords(absence.reason)})`), count, isKnown);

const lateText = ({ late_writers: late, late_count: count, late_is_known: isKnown }) => {
  const rows = (writer) => writer.may_have_more ? "number unknown"
    : `${writer.may_lie_outside ? "at most " : ""}${counted(writer.rows)}`;
  return writersText(late.map((writer) => `${writer.writer}: ${rows(writer)}`), count, isKnown);
};

function writersText(texts, count, isKnown) {
  const parts = texts.slice(0, 5);
  if (count > parts.length) parts.push(`${counted(count - parts.length)} more`);
  return [...parts, !isKnown && "others are no longer known"].filter(Boolean).join(", ") || "–";
}

function segmentsSection({ segments: { segments, next } }) {
  const rows = segments.map(({ writers, writers_total: total, ...row }) =>
    tr(row.segment, cell("Segment.num.n", row.segment),
      cell("State.bare.state", pill([row.state]),
        row.successors.length > 0 && soft(` → ${row.successors.join(", ")}`)),
      cell("From.num.n", row.first_offset ?? "–"), cell("To.num.n", row.last_offset ?? "–"),
      cell("Noted by", `${writers.slice(0, 3).join(", ")}${total > 3 ? ` and ${total - 3} more` : ""}`)));
  return section("Segments", [],
    table("Segments", rows, "No mark has named a segment yet.",
      { From: term("From", "offset"), To: term("To", "offset") }),
    pages("segment", { start: chosen.segment, shown: segments.length, next, size: PAGE }));
}

function ledgerSection({ ledger, changes }) {
  const entryRows = ledger.entries.map((entry) => ({
    ...entry, key: `m${entry.seq}`, from: entry.from_lower, to: entry.to_lower, what: entryText(entry),
  }));
  const changeRows = changes.changes.map((change) => ({
    ...change, key: `c${change.number}`, what: changeText(change),
  }));
  const lateRows = ledger.late_reports.map((report) => ({
    key: `l${report.writer} ${report.min_time} ${report.first_seen_at}`, at: report.last_seen_at,
    from: report.min_time ?? undefined, to: report.max_time,
    what: report.may_have_more ? `${report.writer} noted below the watermark: its rows may be late`
      : `${report.writer} wrote ${many(report.rows, "late row")}`,
    comment: report.first_seen_at < report.last_seen_at ? ["reported from ", when(report.first_seen_at), " on"] : null,
  }));
  const sortedRows = [...entryRows, ...lateRows, ...changeRows].sort((first, second) => second.at - first.at);
  const rows = sortedRows.map(({ key, at, what, from, to, by, comment }) =>
    tr(key, cell("When.bare", when(at)), cell("What.bare.name", what),
      cell("From.n", from !== undefined && when(from)), cell("To.n", to !== undefined && whenBeyond(to, from)),
      cell("By", by), cell("Why", comment)));
  const hasMore = (ledger.next != null || changes.next != null) && chosen.entries < 1000;
  return section("Ledger", [soft("marks that advanced without a writer, and manual changes")],
    table("Ledger", rows, "Nothing yet."),
    hasMore && h("div.pages", chooser("Older entries", { entries: Math.min(1000, chosen.entries + PAGE) })));
}

function entryText({ writers, returned_writers: returned }) {
  const joined = writers.filter(({ reason }) => reason.startsWith("not_")).map(({ writer }) => writer);
  const absent = writers.filter(({ reason }) => !reason.startsWith("not_"))
    .map(({ writer, reason }) => `${writer} (${inWords(reason)})`);
  const without = absent.length && `advanced without ${listed(absent)}`;
  const first = joined.length && `was the first to count ${listed(joined)}`;
  return [without, first, returned.length && `no longer missing: ${listed(returned)}`]
    .filter(Boolean).join("; ");
}

const formText = ({ column, kind, zone, unit, format }) =>
  `${column} (${[kind, zone, unit, format].filter(Boolean).join(", ")})`;

function changeText({ action, writer, old_values: before, new_values: after }) {
  const text = {
    settings: () => Object.keys(after).map((name) =>
      `${settingName(name)}: ${settingText(name, before?.[name])} → ${settingText(name, after[name])}`).join("; "),
    timeout_suspended: () => `timeout of ${writer} suspended for ${lasting(after.for_ms)}`,
    truncated: () => `truncated at ${shownPosition(after.cut)}`,
    scaled: () =>
      `scaled: sealed ${shownPosition(after.sealed)}, created ${Object.keys(after.created).join(", ") || "none"}`,
    went_back: () => `the database lost marks ${after.seq + 1} to ${before.seq} of ${after.domain}`,
    event_time_form: () => `event times of ${after.domain} are read as ${formText(after.form)}`,
    taken_over: () => `${writer} taken over from ${before.label} by ${after.label}`,
  }[action];
  if (text) return text();
  return writer ? `${writer} ${inWords(action)}` : inWords(action);
}

const NO_SETTING = new Set(["name", "id", "marks", "scale_events", "seal", "logs", "event_time_forms"]);
export const settingsOf = (stream) => Object.keys(stream).filter((name) => !NO_SETTING.has(name));

/** "writer_timeout_ms" → "Writer timeout". */
export const settingName = (name) => inWords(name[0].toUpperCase() + name.slice(1)).replace(/ ms$/, "");
export function settingText(name, value) {
  if (value == null) return "none";
  if (Array.isArray(value)) return value.join(" ") || "–";
  return name.endsWith("_ms") ? lasting(value, 9) : counted(value);
}

function settingsSection(stream) {
  return section("Settings", [],
    h("dl.settings", [...settingsOf(stream), "logs"].map((name) =>
      h("div", h("dt", settingName(name)), h("dd", settingText(name, stream[name]))))));
}
