// Writers and readers on one axis, from the watermark to the latest noted time.

import { term } from "./definitions.js";
import { h } from "./elements.js";
import {
  button, cell, chooser, isWaiting, pages, pill, said, searchBox, section, soft, table, tr, when, whenBeyond,
} from "./parts.js";
import { chosen, domain, mayAdminister, PAGE, state } from "./state.js";
import { apart, counted, greatest, inWords, isUnix, lasting, least, listed, minus, share, shownPosition }
  from "./values.js";

/** Return the axis, which extends a little below the watermark to show late writers. */
export function scaleOf({ explain: { lower }, writers, groups }) {
  const name = domain();
  const present = (times) => times.filter((time) => time != null);
  const times = present([...writers.writers.map((row) => row.times[name]), lower]);
  const reads = present(groups.groups.map((row) => row.windows[name]?.lower));
  if (!times.length) return null;
  const high = greatest(times);
  const mark = lower ?? least(times);
  const lowest = least([mark, ...times, ...reads]);
  const low = high > mark ? greatest([lowest, minus(mark, BigInt(minus(high, mark)) / 4n)]) : lowest;
  const at = (time) => Math.min(100, Math.max(0, share(time, low, high) * 100));
  return { low, high, lower, at };
}

function bar(kind, scale, from, to) {
  const [left, right] = [scale.at(from), scale.at(to)].sort((one, other) => one - other);
  return h("i", { class: kind, "data-left": left.toFixed(2), "data-width": (right - left).toFixed(2) });
}
const watermarkLine = (scale) => scale.lower != null && h("b", { "data-left": scale.at(scale.lower).toFixed(2) });
const track = (scale, shown) => scale && h("div.track", shown, watermarkLine(scale));
function axis({ low, high }) {
  const ends = [when(low), when(high)];
  const [[day], [otherDay, time]] = ends.map((end) => end.textContent.split(" "));
  if (ends[0].textContent === ends[1].textContent) ends.pop();
  else if (time && day === otherDay) ends[1].textContent = time;
  return [h("span.hidden", "Noted time, beyond the watermark"), h("div.axis", { "aria-hidden": "true" }, ends)];
}

export function writersSection({ writers, explain }, scale) {
  const isCalm = !isWaiting(explain);
  const { writers: rows, total, next, now } = writers;
  const none = chosen.search ? "No writer has this in its name." : "No writer has noted yet.";
  return section("Writers", [
    h("span.soft.n", counted(total)),
    next != null && chosen.most < PAGE && chooser(`Show ${PAGE}`, { most: PAGE }),
    searchBox("Search writers"),
  ],
    table("Writers", rows.map((row) => writerRow(row, explain.lower, scale, now, isCalm)), none,
      { "Noted time": scale && axis(scale) }),
    pages("start", { start: chosen.start, shown: rows.length, total, next, size: chosen.most }));
}

/** The row of a writer. If the stream `isCalm`, a writer that holds it back is only about to note. */
function writerRow(row, lower, scale, now, isCalm) {
  const { writer, noted_at: notedAt, lower_without: lowerWithout, session } = row;
  const { suspension_ends_at: suspensionEndsAt, times_out_at: timesOutAt } = row;
  const time = row.times[domain()];
  const holdsBack = !isCalm && row.times_out_in_ms != null;
  const isSuspended = suspensionEndsAt > now;
  const reason = [row.suspended_by, row.suspension_reason].filter(Boolean).join(": ");
  const tick = h("input",
    { type: "checkbox", "data-act": "pick", "data-writer": writer, "aria-label": `What if without ${writer}` });
  return tr(writer,
    cell("Writer.bare.name", h("label", tick, writer), session?.label && h("div.hint", `process ${session.label}`),
      row.contact && h("div.hint", `contact ${row.contact}`)),
    cell("State.bare.state", pill(writerState(row, holdsBack, now)),
      row.no_time_reason && h("div.hint", said(`alive, but ${row.no_time_reason}`))),
    cell("Noted time.bare.strip", track(scale, scale && writerBar(row, time, lower, scale, holdsBack))),
    cell("Noted", row.is_expected ? "never" : when(time)),
    cell("Last heard.n", row.is_expected ? "never"
      : isUnix(notedAt) && h("span", { title: when(notedAt).title }, `${lasting(now - notedAt)} ago`)),
    cell("Times out in.n",
      isSuspended && h("div.hint", "suspended until ", when(suspensionEndsAt), reason && ` (${reason})`),
      !isSuspended && timesOutAt != null && lasting(Math.max(0, timesOutAt - now))),
    cell("Without it.n", holdsBack && lowerWithout != null
      && (lowerWithout === lower ? soft("no change") : whenBeyond(lowerWithout, lower))),
    cell("Actions.bare.num.act", mayAdminister() && writerButtons(row, now)));
}

function writerBar({ state: memberState }, time, lower, scale, holdsBack) {
  if (time == null) return memberState === "live" && h("span.off", "◂ no time yet");
  if (time < scale.low) return h("span.off", "◂ ", when(time));
  let kind = memberState === "live" ? "" : "rests";
  if (holdsBack) kind = "holds-back";
  return bar(kind, scale, lower ?? scale.low, time);
}

function writerState(row, holdsBack, now) {
  const { state: memberState, excluded, holding_back_began_at: heldBackFrom, is_silent: isSilent, silent_ms: ms } = row;
  const silent = isSilent ? `silent ${lasting(ms)}` : "";
  if (excluded) {
    const ending = heldBackFrom == null ? "" : "; back, and holds back";
    return [`excluded: ${inWords(excluded.reason)}${ending}`, "bad"];
  }
  if (!holdsBack) return silent ? [silent, "warn"] : [memberState];
  if (heldBackFrom == null) return ["holds back", "warn"];
  return [listed([`holds back ${lasting(now - heldBackFrom)}`, silent].filter(Boolean)), "warn"];
}

function writerButtons(row, now) {
  const { writer, state: memberState, suspension_ends_at: suspensionEndsAt, excluded, noted_at: notedAt } = row;
  const writerButton = (label, act, name) => button(label, act, { writer }, { class: "quiet", "aria-label": name });
  const isSuspended = suspensionEndsAt > now;
  const hasTimeout = memberState === "live" || row.holding_back_began_at != null;
  const isRemoved = excluded?.reason === "removed" && notedAt <= excluded.excluded_at;
  return [
    isSuspended && writerButton("Resume timeout…", "resume", `Resume the timeout of ${writer}…`),
    !isSuspended && hasTimeout && writerButton("Wait longer…", "suspend", `Wait longer for ${writer}…`),
    !isRemoved && writerButton("Remove…", "remove", `Remove ${writer}…`),
  ];
}

export function readersSection({ groups, group, explain }, scale) {
  const rows = groups.groups.flatMap((row) => {
    const isOpen = chosen.group === row.group;
    const shown = groupRow(row, isOpen, explain.lower, scale);
    return isOpen && group ? [shown, detailsRow(group, explain.lower)] : shown;
  });
  return section("Readers", [],
    table("Readers", rows, "No reader group has reported a position."),
    groups.next != null && h("div.pages", chooser("More groups", { groupsAfter: groups.next })));
}

function groupRow({ group, windows, lag: lags, readers }, isOpen, lower, scale) {
  const { lower: from, upper: to } = windows[domain()] ?? {};
  const distance = lags[domain()];
  const open = chooser(group, { group: isOpen ? null : group }, null,
    { class: "quiet", "aria-expanded": String(isOpen) });
  const range = scale && from != null && bar("range", scale, from, to ?? greatest([scale.high, from]));
  return tr(group,
    cell("Group.bare.name", open),
    cell("Time window.bare.strip", track(scale, range)),
    cell("Complete to", when(from)),
    cell("Lag.n", distanceText(distance, lower)),
    cell("Readers.num.n", readers));
}

function distanceText(distance, lower) {
  if (distance === 0) return "up to date";
  if (distance != null) return apart(distance, lower);
  return lower == null ? "" : "before the first mark";
}

/** A row with a group's readers, their segments and lags, and with the group's backlog. */
function detailsRow({ group, backlog, backlog_causes: reported, readers, reader_lags: lags }, lower) {
  const causes = backlog && listed(reported.map(({ reason, reader }) => reader ?? inWords(reason)));
  return tr(`${group}/`, cell("Readers of it.bare", { colspan: 5 },
    backlog && h("p", pill([term("backlog"), "warn"]), ` by ${causes}`),
    Object.entries(readers).map(([reader, position]) => {
      const { lag } = lags[domain()]?.[reader] ?? {};
      return h("p", h("strong", reader), " ", h("span.n", shownPosition(position)),
        lag > 0 && soft(`, ${apart(lag, lower)} behind`));
    })));
}
