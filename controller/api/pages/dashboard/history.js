// The history of the watermark: it, its upper bound and its lag over wall time.

import { term } from "./definitions.js";
import { $, h, show, svg } from "./elements.js";
import { cell, chooser, section, table, when } from "./parts.js";
import { chosen, state } from "./state.js";
import {
  DAY, greatest, HOUR, isLag, isUnix, lagText, lasting, least, listed, minus, narrowed, share, zonedText, zoneOffset,
} from "./values.js";

const RANGES = { "15 min": HOUR / 4, "1 h": HOUR, "6 h": 6 * HOUR, "24 h": 24 * HOUR, "7 d": 168 * HOUR, All: null };
const PLOT = { left: 142, right: 12, top: 16, height: 130 };
const PHONE = 480; // on a narrower page, values are inside the frame, above their lines

export function historySection(history) {
  const { points, lower_before: before } = history;
  const ranges = Object.entries(RANGES).map(([label, range]) => chooser(label, { range }, range === chosen.range));
  const rows = points.slice(-200).reverse().map(({ at, lower, upper, lag_ms: lag, ...point }) =>
    h("tr", cell("Marked", when(at)), cell("Watermark", when(lower)),
      cell("Upper bound", when(upper), !point.upper_is_bound && " (no bound)"),
      cell("Lag before.n", lagText(lag)),
      cell("Without", point.excluded.join(", "))));
  const asTable = rows.length > 0
    && h("details", { "data-key": "table" }, h("summary", "As a table"), table("History", rows));
  return section("History", h("span.counts", ranges),
    points.length || before != null ? [charts(history), asTable] : h("p.empty", "No mark was made in this time."));
}

function charts({ from_at: from, to_at: to, lower_before: start, points: all }) {
  const { before, points } = settled(from, to, start, all);
  const last = points.at(-1)?.lower ?? before;
  const isTime = isUnix(last);
  const width = Math.max(320, ($(".chart") ?? $("#main")).clientWidth);
  const frame = { from, to, width, left: leftIn(width), cursor: all[chosen.cursor] };
  const lags = isTime ? lagLine(points, before, from, to) : [];
  const most = greatest([1, ...lags.map(([, lag]) => lag)]);
  const lowest = before ?? points[0].lower;
  const highest = greatest([...points.map((point) => point.upper), isTime && most < 4 * (to - from) ? to : last]);
  const hasClock = isTime && highest > from;
  const flags = all.filter((point) => point.excluded_marks);
  const isLevel = lowest === highest;
  // a lower that stands is drawn a little above the edge of the frame
  let margin = 0n;
  if (isLevel) margin = 1n;
  else if (lowest === last) margin = BigInt(minus(highest, lowest)) / 8n;
  const [low, high] = [minus(lowest, margin), minus(highest, -margin)];
  const clock = [greatest([from, low]), least([to, high])].map((at) => [at, at]);
  const values = isLevel ? [lowest] : ticks(low, high, 5, isTime);
  const labels = { values, name: (time) => (isUnix(time) ? shortened(zonedText(time)) : time) };
  const drawn = plot("watermark and upper bound over wall time", frame, labels, [low, high], (x, line) => [
    hasClock && svg("path.clock", { d: line(clock) }),
    svg("path.upper", { d: line(stepped(points, "upper", null, from, to)) }),
    svg("path.lower", { d: line(stepped(points, "lower", before, from, to)) }),
    flags.map(({ at, excluded }) =>
      svg("path.flag", { d: `M${x(at) - 5} 2h10l-5 9z` }, svg("title", `advanced without ${listed(excluded)}`))),
  ]);
  return h("div.chart", { tabindex: 0, role: "group", "aria-label": "History: arrow keys read the marks" },
    h("div.key", h("span.k-lower", term("Watermark (lower bound)", "watermark")),
      h("span.k-upper", term("Upper bound")), hasClock && h("span.k-clock", "Clock"),
      flags.length > 0 && h("span.k-flag", "Advanced without a writer")),
    drawn,
    isLag(lags.at(-1)?.[1]) && [
      h("div.key", h("span.k-lower", term("Lag behind the clock", "lag"))), lagPlot(frame, lags, most),
    ],
    frame.cursor && tip(frame));
}

/** Return the marks without the first ones of a young stream, whose large lags would dominate the scale. */
function settled(from, to, before, points) {
  const place = points.findLastIndex(({ at }) => at - from < (to - from) / 100);
  if (before != null || place < 0) return { before, points };
  return { before, points: [{ ...points[place], lag_ms: null }, ...points.slice(place + 1)] };
}

function lagPlot(frame, lags, most) {
  const labels = { values: ticks(0, most, 5, true), name: lasting };
  const corners = [[lags[0][0], 0], ...lags, [frame.to, 0]];
  return plot("lag over wall time", frame, labels, [0, most], (_, line) => svg("path.lag", { d: line(corners) }));
}

const leftIn = (width) => (width < PHONE ? 4 : PLOT.left);

const across = ({ from, to, width, left }) => (at) =>
  left + ((at - from) / Math.max(1, to - from)) * (width - left - PLOT.right);

/** A plot of values over wall time. `draw` gets functions for the position of a moment and for a line. */
function plot(label, frame, { values, name }, [low, high], draw) {
  const { from, to, width, left, cursor } = frame;
  const named = left < PLOT.left ? { x: left, dy: -4 } : { x: left - 8, dy: 4, "text-anchor": "end" };
  const x = across(frame);
  const y = (value) => (PLOT.top + PLOT.height * (1 - share(value, low, high))).toFixed(1);
  const line = (points) => `M${points.map(([at, value]) => `${x(at).toFixed(1)} ${y(value)}`).join("L")}`;
  const height = PLOT.height + PLOT.top + 18;
  const clock = (at) => (to - from > 20 * HOUR ? shortened(zonedText(at).slice(0, -3)) : zonedText(at).slice(-8));
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label },
    values.map((value) => [
      svg("path.grid", { d: `M${left} ${y(value)}H${width - PLOT.right}` }),
      svg("text", { ...named, y: y(value) }, String(name(value))),
    ]),
    draw(x, line), cursor && svg("path.cursor", { d: `M${x(cursor.at)} ${PLOT.top}v${PLOT.height}` }),
    ticks(from, to, width / 150, true).map((at) => [at, clock(at)]).map(([at, text]) =>
      svg("text", { x: Math.min(x(at), width - 3.5 * text.length), y: height - 4, "text-anchor": "middle" }, text)));
}

/** Return the corners of a line that is level between marks. */
function stepped(points, name, before, from, to) {
  let value = before;
  const corners = before == null ? [] : [[from, before]];
  for (const point of points) {
    if (value != null) corners.push([point.at, value]);
    value = point[name];
    corners.push([point.at, value]);
  }
  return value == null ? [] : [...corners, [to, value]];
}

/** Return the lags just before and just after each mark. */
function lagLine(points, before, from, to) {
  const start = before == null ? [] : [[from, minus(from, before)]];
  const marks = points.flatMap(({ at, lower, lag_ms: lag }) => {
    const after = minus(at, lower);
    return [[at, lag ?? after], [at, after]];
  });
  const end = [to, minus(to, points.at(-1)?.lower ?? before)];
  return [...start, ...marks, end].map(([at, lag]) => [at, greatest([0, lag])]);
}

const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800];
const HOURS = [1, 2, 3, 6, 12, 24, 48, 96, 168];
const TIME_STEPS = [...SECONDS.map((seconds) => seconds * 1000), ...HOURS.map((hours) => hours * HOUR)];

const MONTHS = [1, 3, 6, 12, 24, 60, 120, 240, 600, 1200];

/** Omit the time at the beginning of a day. */
const shortened = (text) => text.replace(/ 00:00(:00)?$/, "");

/** Return the smallest of 1, 2, 5, 10, 20, … that is at least `size`. */
function roundStep(size) {
  const ten = 10 ** Math.floor(Math.log10(Math.max(1, size)));
  return [ten, 2 * ten, 5 * ten].find((step) => step >= size) ?? 10 * ten;
}

const timeStep = (size) => TIME_STEPS.find((step) => step >= size) ?? roundStep(size / DAY) * DAY;

/** Return the first moments of months, in the chosen zone. */
function months(low, high, size) {
  const step = MONTHS.find((months) => months * 30 * DAY >= size);
  const start = new Date(low + zoneOffset(low)).getUTCFullYear();
  const moments = [];
  for (let month = -12 * (start % 50), at = 0; at <= high; month += step) {
    at = Date.UTC(start, month);
    at -= zoneOffset(at);
    if (at >= low && at <= high) moments.push(at);
  }
  return moments;
}

/** Return round values from `low` to `high`, with `most` / 2.5 to `most` steps. */
function ticks(low, high, most, isTime) {
  const size = Number(minus(high, low)) / most;
  if (isTime && size > 7 * DAY && isUnix(low) && isUnix(high)) return months(low, high, size);
  const step = BigInt((isTime && size > 500 && timeStep(size)) || roundStep(size));
  const shift = BigInt(isUnix(low) ? -zoneOffset(low) : 0);
  const rest = (BigInt(low) - shift) % step;
  const values = [];
  for (let at = BigInt(low) + (rest > 0n ? step - rest : -rest); at <= high; at += step) values.push(narrowed(at));
  return values;
}

function tip(frame) {
  const { at, seq, lower, upper, lag_ms: lag, excluded } = frame.cursor;
  const place = across(frame)(at);
  const isLeft = place > frame.width / 2;
  const left = ((place + (isLeft ? -12 : 12)) / frame.width) * 100;
  return h("div.tip", { "aria-live": "polite", "data-left": left, "data-side": isLeft && "left" },
    h("div", `mark ${seq} at `, when(at)),
    h("div", "watermark ", when(lower)), h("div", "upper bound ", when(upper)),
    isLag(lag) && isUnix(lower) && h("div", `lag before it ${lasting(lag)}`),
    excluded.length > 0 && h("div", `without ${listed(excluded)}`));
}

function moveCursor(pick) {
  const { points } = state.data.history;
  chosen.cursor = pick && points.length ? Math.min(points.length - 1, Math.max(0, pick(points))) : null;
  show($("section[aria-label=History]"), historySection(state.data.history));
}

/** Show the mark under the pointer, until the pointer leaves the chart. */
export function pointAt({ target, clientX }) {
  const chart = target.closest?.(".chart");
  if (!chart) return chosen.cursor != null && !document.activeElement.closest(".chart") && moveCursor(null);
  const { left, width } = chart.getBoundingClientRect();
  const { from_at: from, to_at: to } = state.data.history;
  const begin = leftIn(width);
  const at = from + ((clientX - left - begin) / (width - begin - PLOT.right)) * (to - from);
  moveCursor((points) => points.findLastIndex((point) => point.at <= at));
}

/** Show the previous or next mark at an arrow key. */
export function stepTo(event) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step || !event.target.classList.contains("chart")) return;
  event.preventDefault();
  moveCursor((points) => (chosen.cursor ?? points.length) + step);
}
