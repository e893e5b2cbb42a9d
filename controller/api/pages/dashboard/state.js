// The state of the page: the view in its address, the last answers, and the user's choices.
//
// `poll` loads the feeds that are due. Then the document gets the event "answers".

import { access, call, loadAccess } from "./api.js";
import { $, h } from "./elements.js";
import { similarNames } from "./similar.js";
import { chosenZone, DAY, HOUR, isUnix, zoneOffset } from "./values.js";

const POLL_MS = 1500;
export const PAGE = 50;
const FEW_WRITERS = 10; // more would push the sentences out of sight

export const state = { view: "", name: "", domain: null, data: {}, at: null, fault: null, skew: 0, isNew: false };
export let chosen = {};
let latestPoll = 0;
let round = 0;
let timer = 0;

const streamPath = (...below) => ["v1", "streams", state.name, ...below].map(encodeURIComponent).join("/");
export const get = (below, query) => call("GET", streamPath(...below), { query });
/** Make an operator's change, with its reason. */
export const change = (method, below, comment, body, query) =>
  call(method, streamPath(...below), { query: { comment, ...query }, body });
export const mayAdminister = () => access?.administer;

export const address = (name, domain) =>
  `#/streams/${encodeURIComponent(name)}${domain ? `?domain=${encodeURIComponent(domain)}` : ""}`;

export function goTo() {
  let [, name = "", query] = /^#\/streams\/([^?]+)\??(.*)/.exec(location.hash) ?? [];
  try { name = decodeURIComponent(name); } catch { /* show the name as it was typed */ }
  const wasShown = state.view !== "";
  const isSame = wasShown && name === state.name;
  const domain = new URLSearchParams(query).get("domain");
  Object.assign(state, { view: name ? "stream" : "streams", name, domain });
  chosen = { picked: [], entries: PAGE, most: FEW_WRITERS };
  if (!isSame) Object.assign(state, { at: null, isNew: wasShown });
  state.data = isSame ? { stream: state.data.stream } : {};
  document.title = `${name || "Streams"} · noted-time`;
  $("#main").replaceChildren(h("p.empty", "Loading…"));
  poll(true);
}

export function domain() {
  const declared = state.data.stream.domains;
  return state.domain ?? (declared.includes("default") ? "default" : declared[0]);
}

/** Return the row of the stream's owner, or the stored row if the owner does not answer within a second. */
const rowOfOwner = (row) => (row.answered ? row
  : call("GET", `v1/streams/${encodeURIComponent(row.name)}/overview`, { within: 1000 }).catch(() => row));

const ofDomain = (below, query) => get(below, { domain: domain(), ...query });

/** The feeds of each view: how often each is loaded, in rounds, and the function that loads it. */
const FEEDS = {
  streams: {
    overview: [1, async () => {
      const { search, start } = chosen;
      const page = await call("GET", "v1/overview", { query: { search, start, limit: PAGE } });
      return { ...page, streams: await Promise.all(page.streams.map(rowOfOwner)) };
    }],
  },
  stream: {
    explain: [1, () => ofDomain(["explain"], { limit: 3, exclude: chosen.picked })],
    writers: [1, () => ofDomain(["writers"], { search: chosen.search, start: chosen.start, limit: chosen.most })],
    history: [2, loadHistory],
    windows: [4, loadWindows],
    groups: [2, () => get(["reader-groups"], { limit: PAGE, after: chosen.groupsAfter })],
    group: [2, () => chosen.group && get(["reader-groups", chosen.group])],
    segments: [4, () => ofDomain(["segments"], { limit: PAGE, start: chosen.segment })],
    ledger: [2, () => ofDomain(["ledger"], { order: "newest", limit: chosen.entries })],
    changes: [2, () => get(["changes"], { limit: chosen.entries })],
    stream: [4, () => get([])],
  },
};

/** Load the last complete hours, or days if the marks are whole days apart. */
async function loadWindows() {
  const { lower, seq } = state.data.stream.marks[domain()] ?? {};
  if (!isUnix(lower)) return { windows: [] };
  const { marks } = await ofDomain(["marks"], { after: Math.max(0, seq - 3), limit: 3 });
  const times = marks.map((mark) => Number(mark.lower) + zoneOffset(mark.lower));
  const isDaily = times[1] && times.every((time) => (time - times[0]) % DAY === 0);
  const load = (tiling) => ofDomain(["windows"], { ...tiling, after: lower - 13 * tiling.size_ms, limit: 13 });
  if (isDaily) {
    try {
      const days = await load({ size_ms: DAY, origin: times[0] % DAY, zone: chosenZone() });
      return { ...days, isDaily };
    } catch (problem) {
      // days are refused if their begin is within the times that the clock of the zone shows twice
      if (problem.status !== 422) throw problem;
    }
  }
  return { ...await load({ size_ms: HOUR }), isDaily: false };
}

/** Load the marks of the range. By default it is the last hour, or everything if the hour has no mark. */
async function loadHistory() {
  if (chosen.range === undefined) {
    const { now, first_at: first, points } = await ofDomain(["history"], { points: 1 });
    Object.assign(chosen, { first, range: points.length && now - points[0].at > HOUR ? null : HOUR });
  }
  // start at the first mark, so that a young stream fills the width
  const from = Math.max(chosen.first, chosen.range && Math.round(Date.now() + state.skew - chosen.range));
  return ofDomain(["history"], { from_at: from || null, points: 600 });
}

/** Return whether the stream or domain does not exist, or its name is not valid. */
export const isMissing = (fault) =>
  /unknown_(stream|domain)/.test(fault?.code) || (!state.data.explain && [404, 422].includes(fault?.status));

/** Return the streams whose names are like that of the view, of those that the token may read. */
async function loadSimilarStreams() {
  const { streams } = await call("GET", "v1/streams", { query: { limit: 1000 } });
  return similarNames(state.name, streams.map(({ name }) => name));
}

/** Load the feeds that are due, or all feeds. */
export async function poll(all = false) {
  clearTimeout(timer);
  const thisPoll = ++latestPoll;
  round = all ? 0 : round + 1;
  try {
    await loadAccess();
    if (state.view === "stream") state.data.stream ??= await get([]);
    const isDue = ([name, [every]]) => !(name in state.data) || round % every === 0;
    const due = Object.entries(FEEDS[state.view]).filter(isDue);
    const entries = await Promise.all(due.map(async ([name, [, load]]) => [name, await load()]));
    if (thisPoll !== latestPoll) return;
    Object.assign(state.data, Object.fromEntries(entries));
    const { now } = state.data.overview ?? state.data.explain;
    Object.assign(state, { at: Date.now(), fault: null, skew: now - Date.now() });
  } catch (fault) {
    if (thisPoll !== latestPoll) return;
    if (isMissing(fault)) {
      const names = state.data.similarStreams ?? await loadSimilarStreams().catch(() => []);
      if (thisPoll !== latestPoll) return;
      state.data.similarStreams = names;
    }
    state.fault = fault;
  }
  if (state.fault?.status !== 401) timer = setTimeout(() => document.hidden || poll(), POLL_MS);
  document.dispatchEvent(new Event("answers"));
}

export function choose(changes) {
  Object.assign(chosen, changes);
  poll(true);
}
