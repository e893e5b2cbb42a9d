// Writers and readers on one axis, from the watermark to the latest noted time.

import { h } from "./elements.js";
import {
  button, cell, chooser, isHeld, pages, pill, said, searchBox, section, soft, table, tr, when, whenBeyond,
} from "./parts.js";
import { chosen, domain, may, PAGE, state } from "./state.js";
import { apart, counted, greatest, inWords, isUnix, lasting, least, listed, minus, share, shownPosition }
  from "./values.js";

/** Return the axis, which extends a little below the watermark to show late writers. */
export function scaleOf({ explain: { lower }, writers, groups }) {
  const name = domain();
  const known = (times) => times.filter((time) => time != null);
  const times = known([...writers.writers.map((row) => row.times[name]), lower]);
  const reads = known(groups.groups.map((row) => row.windows[name]?.lower));
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
  const isCalm = !isHeld(explain);
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

/** The row of a writer. If the stream `isCalm`, a holder is only about to note. */
function writerRow(row, lower, scale, now, isCalm) {
  const { writer, noted_at: heard, held_until: until, out_at: outAt, lower_without: without, session } = row;
  const time = row.times[domain()];
  const holds = !isCalm && row.times_out_in_ms != null;
  const held = [row.held_by, row.held_for].filter(Boolean).join(": ");
  const tick = h("input",
    { type: "checkbox", "data-act": "pick", "data-writer": writer, "aria-label": `What if without ${writer}` });
  return tr(writer,
    cell("Writer.bare.name", h("label", tick, writer), session?.label && h("div.hint", `process ${session.label}`)),
    cell("State.bare.state", pill(writerState(row, holds, now)),
      row.held && h("div.hint", said(`alive, but ${row.held}`))),
    cell("Noted time.bare.strip", track(scale, scale && writerBar(row, time, lower, scale, holds))),
    cell("Noted", row.is_expected ? "never" : when(time)),
    cell("Last heard.n", row.is_expected ? "never"
      : isUnix(heard) && h("span", { title: when(heard).title }, `${lasting(now - heard)} ago`)),
    cell("Times out in.n", until > now ? h("div.hint", "held by an operator until ", when(until), held && ` (${held})`)
      : outAt == null ? "" : lasting(Math.max(0, outAt - now))),
    cell("Without it.n", holds && without != null
      && (without === lower ? soft("no change") : whenBeyond(without, lower))),
    cell("Actions.bare.num.act", may() && writerButtons(row, now)));
}

function writerBar({ state: is }, time, lower, scale, holds) {
  if (time == null) return is === "live" && h("span.off", "◂ no time yet");
  if (time < scale.low) return h("span.off", "◂ ", when(time));
  return bar(holds ? "holds" : is === "live" ? "" : "rests", scale, lower ?? scale.low, time);
}

function writerState({ state: is, excluded, holding_since: since, is_silent: isSilent, silent_ms: ms }, holds, now) {
  const silent = isSilent ? `silent ${lasting(ms)}` : "";
  if (excluded) return [`excluded: ${inWords(excluded.reason)}${since == null ? "" : "; back, and holds"}`, "bad"];
  if (!holds) return silent ? [silent, "warn"] : [is];
  if (since == null) return ["holds", "warn"];
  return [listed([`holds ${lasting(now - since)}`, silent].filter(Boolean)), "warn"];
}

function writerButtons({ writer, state: is, held_until: until, excluded, noted_at, holding_since: since }, now) {
  const one = (label, act, name) => button(label, act, { writer }, { class: "quiet", "aria-label": name });
  const hold = (is === "live" || since != null) && one("Hold…", "hold", `Hold ${writer}…`);
  return [
    until > now ? one("End hold", "release", `End the hold of ${writer}`) : hold,
    (excluded?.reason !== "removed" || noted_at > excluded.since) && one("Remove…", "remove", `Remove ${writer}…`),
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

function groupRow({ group, windows, behind, readers }, isOpen, lower, scale) {
  const { lower: from, upper: to } = windows[domain()] ?? {};
  const distance = behind[domain()];
  const open = chooser(group, { group: isOpen ? null : group }, null,
    { class: "quiet", "aria-expanded": String(isOpen) });
  const range = scale && from != null && bar("range", scale, from, to ?? greatest([scale.high, from]));
  return tr(group,
    cell("Group.bare.name", open),
    cell("Lower to upper.bare.strip", track(scale, range)),
    cell("Complete to", when(from)),
    cell("Behind.n", distance == null ? (lower == null ? "" : "before the first mark")
      : distance === 0 ? "up to date" : apart(distance, lower)),
    cell("Readers.num.n", readers));
}

/** A row with a group's readers, their segments and lags, and with the group's backlog. */
function detailsRow({ group, backlog, because, readers, lags }, lower) {
  const causes = backlog && listed(because.map(({ reason, reader }) => reader ?? inWords(reason)));
  return tr(`${group}/`, cell("Readers of it.bare", { colspan: 5 },
    backlog && h("p", pill(["backlog", "warn"]), ` by ${causes}`),
    Object.entries(readers).map(([reader, position]) => {
      const { behind } = lags[domain()]?.[reader] ?? {};
      return h("p", h("strong", reader), " ", h("span.n", shownPosition(position)),
        behind > 0 && soft(`, ${apart(behind, lower)} behind`));
    })));
}
