// The list of streams, with problems first.

import { access, base, program } from "./api.js";
import { h, svg } from "./elements.js";
import {
  andOthers, button, cell, CONDITIONS, conditionText, heading, isWaiting, pages, pill, searchBox, section, soft, table,
  tr, when, writerCounts,
} from "./parts.js";
import { address, chosen, PAGE } from "./state.js";
import { counted, greatest, inWords, isLag, isUnix, lagText, lasting, least, many, share } from "./values.js";

export function streamsView({ overview: { now, streams, total, unanswered, conditions, next } }) {
  const { search, start } = chosen;
  const isEmpty = total === 0 && !search;
  const silent = streams.filter(({ answered }) => !answered).length;
  const rows = streams.flatMap((stream) => stream.domains.map((row) => streamRow(stream, row, now)));
  return [
    h("div.head", heading("Streams"), h("span.soft.n", counted(total)), !unanswered && streamCounts(conditions),
      !isEmpty && searchBox("Search streams")),
    silent > 0
      && h("p.fault", `${many(silent, "stream")} without a controller that answers: shown as last stored.`),
    isEmpty ? emptyList() : section("Streams", null,
      table("Streams", rows, `No stream has “${search}” in its name.`),
      pages("start", { start, shown: streams.length, total, next, size: PAGE })),
  ];
}

const WORDS = { missing: "silent, writers missing", unmarked: "without a mark yet", ended: "silent for a day" };

/** Return the counts of streams, such as "3 held back, 39 advancing", the worst first. */
const streamCounts = (counts) => h("span.counts", { "data-role": "conditions" },
  Object.keys(CONDITIONS).filter((name) => counts[name])
    .map((name) => pill([`${counted(counts[name])} ${countedAs(name)}`, CONDITIONS[name]])));
const countedAs = (name) => WORDS[name] ?? inWords(name);

function streamRow(stream, row, now) {
  const isOne = stream.domains.length === 1;
  const { held_back_by: writer, holding_back_count: count, overtaking, times_out_in_ms: left } = row;
  return tr(`${stream.name}/${row.domain}`,
    cell("Stream.bare.name", h("a", { href: address(stream.name, isOne ? "" : row.domain) }, stream.name),
      !isOne && soft(` ${row.domain}`)),
    cell("Watermark", when(row.lower)),
    cell("Lag.num.n", isUnix(row.lower) ? lagText(now - row.lower) : "–"),
    cell("Last hour.bare.wide-only", spark(row.recent_lags_ms)),
    cell("State.bare.state", pill(conditionText(row))),
    cell("Held back by.row", isWaiting(row)
      && [h("strong", writer), andOthers(count, "other"), left != null && soft(`, out in ${lasting(left)}`),
        overtaking && h("div.hint", "since ", when(overtaking.began_at), `: ${overtaking.writer ?? "another"} noted `,
          when(overtaking.time))]),
    cell("Writers.bare.row", stream.writers && writerCounts(stream.writers)));
}

function spark(lag) {
  const lags = lag.map((value, place) => [place, value]).filter(([, value]) => value != null);
  const most = greatest([1, ...lags.map(([, value]) => value)]);
  if (lags.length < 2 || !isLag(most)) return null;
  const shares = lags.map(([place, value]) => [place, share(value, 0, most)]);
  const high = 1 + least(shares.map(([, height]) => height));
  const points = shares.map(([place, height]) =>
    `${(place / (lag.length - 1)) * 92},${(21 - (height / high) * 19).toFixed(1)}`);
  const label = `lag, at most ${lasting(most)}`;
  return svg("svg", { class: "spark", viewBox: "0 0 92 22", role: "img", "aria-label": label },
    svg("polyline.lower", { points: points.join(" ") }));
}

export const useAnother = () => button("Use another token", "token");

/** Return the text of an empty list. A token with limited rights may not see all streams. */
const emptyList = () => (access?.read_all === false
  ? h("p.empty", "This token does not give the right to read any stream. ", useAnother())
  : firstSteps());

function firstSteps() {
  const url = base.href.replace(/\/$/, "");
  const note = '{"notes": [{"writer": "shop-2", "time": 1357038000000, "position": {"1": 80}}]}';
  const steps = [
    ["See a stream move, with one writer that stalls", `${program} demo-stream --url ${url}`],
    ["Create your own stream", `${program} stream create orders --url ${url}`],
    ["Note time, from any program that speaks HTTP", `curl ${url}/v1/streams/orders/notes --json '${note}'`],
  ];
  return section("First steps", soft("There are no streams yet."), steps.map(([label, text]) => [
    h("p", `${label} `, button("Copy", "copy", { text }, { "aria-label": `Copy: ${label}` })),
    h("pre", { tabindex: 0 }, h("code", text)),
  ]));
}
