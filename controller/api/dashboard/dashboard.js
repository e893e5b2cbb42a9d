// The dashboard: who holds the watermark back, since when, and what if it went on without them.
//
// Each view is made anew from the API's answers, as elements and never as markup, so no name can
// become any; then it is patched into the page, which keeps focus, selection and what was typed.

const POLL_MS = 1500;
const ANSWER_MS = 8000;
const PAGE = 50;
const HELD_MS = 10_000; // a writer that holds for less is merely the next one to note
const HOUR = 3_600_000;
const RANGES = { "15 min": HOUR / 4, "1 h": HOUR, "6 h": 6 * HOUR, "24 h": 24 * HOUR, "7 d": 168 * HOUR, All: null };

// --- Elements

/** Make an element of "tag.class.class" with attributes, children, lists of both; null adds nothing. */
function make(space, kind, ...parts) {
	const [tag, ...classes] = kind.split(".");
	const element = document.createElementNS(space, tag);
	if (classes.length) element.setAttribute("class", classes.join(" "));
	for (const part of parts.flat(Infinity)) {
		if (part == null || part === false) continue;
		if (typeof part !== "object" || part instanceof Node) element.append(part);
		else for (const [name, value] of Object.entries(part)) {
			if (value != null && value !== false) element.setAttribute(name, value === true ? "" : value);
		}
	}
	return element;
}
const h = make.bind(null, "http://www.w3.org/1999/xhtml");
const svg = make.bind(null, "http://www.w3.org/2000/svg");
const $ = (selector, within = document) => within.querySelector(selector);
const soft = (...parts) => h("span.soft", parts);
/** A button that does one of ACTS, with what its data says. */
const button = (label, act, data = {}, given) =>
	h("button", { type: "button", "data-act": act, ...given }, Object.entries(data).map(([name, value]) => ({ [`data-${name}`]: value })), label);
/** A cell of "Column.class.class"; a narrow page shows the column's name before it, unless it is bare. */
const cell = (kind, ...children) => {
	const [label, ...classes] = kind.split(".");
	return h(["td", ...classes].join("."), { "data-label": label }, children);
};
/** A button that chooses what is shown; with `isChosen` one of several, of which one is. */
const chooser = (label, choice, isChosen, given) =>
	button(label, "choose", { choice: written(choice) }, { "aria-pressed": isChosen == null ? null : String(isChosen), ...given });
const address = (name, domain) => `#/streams/${encodeURIComponent(name)}${domain ? `?domain=${encodeURIComponent(domain)}` : ""}`;

/** Make the children of `old` those of `fresh`; one with the same data-key stays the same element. */
function patch(old, fresh) {
	const keyed = new Map();
	for (const child of old.children) if (child.dataset.key) keyed.set(child.dataset.key, child);
	let next = old.firstChild;
	for (const wanted of [...fresh.childNodes]) {
		const key = wanted.dataset?.key;
		const known = key ? keyed.get(key) : next?.dataset?.key ? null : next;
		if (known?.nodeName !== wanted.nodeName) {
			old.insertBefore(wanted, next);
			continue;
		}
		if (known === next) next = next.nextSibling;
		else old.insertBefore(known, next);
		if (known.nodeType === Node.TEXT_NODE) {
			if (known.data !== wanted.data) known.data = wanted.data;
		} else {
			patchAttributes(known, wanted);
			patch(known, wanted);
		}
	}
	while (next?.nextSibling) next.nextSibling.remove();
	next?.remove();
}

function patchAttributes(old, fresh) {
	for (const { name } of [...old.attributes]) {
		// whether details are open, and where a bar lies, is not said by attributes of the fresh one
		if (!fresh.hasAttribute(name) && name !== "open" && name !== "style") old.removeAttribute(name);
	}
	for (const { name, value } of fresh.attributes) {
		if (old.getAttribute(name) !== value) old.setAttribute(name, value);
	}
}

/** Patch, keep the focus, and place the bars, which the content policy forbids markup to do. */
function show(old, fresh) {
	const focused = document.activeElement;
	patch(old, fresh);
	for (const bar of old.querySelectorAll("[data-left]")) {
		bar.style.left = `${bar.dataset.left}%`;
		if (bar.dataset.width) bar.style.width = `${bar.dataset.width}%`;
	}
	if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
}

// --- Integers: times and offsets beyond 2^53, where numbers have gaps, are BigInt

const narrowed = (big) => (Number.isSafeInteger(Number(big)) ? Number(big) : big);
const parsed = (json) => JSON.parse(json, (_, value, context) =>
	Number.isInteger(value) && /^-?\d{16,}$/.test(context?.source) ? narrowed(BigInt(context.source)) : value);
const written = (body) => JSON.stringify(body, (_, value) => (typeof value === "bigint" ? JSON.rawJSON(String(value)) : value));
const minus = (one, other) => narrowed(BigInt(one) - BigInt(other));
const least = (values) => values.reduce((one, other) => (other < one ? other : one));
const greatest = (values) => values.reduce((one, other) => (other > one ? other : one));
/** Where a value lies from `low`, 0, to `high`, 1. */
const share = (value, low, high) => Number(minus(value, low)) / Math.max(1, Number(minus(high, low)));

// --- Times, durations and numbers, as people read them

const isUnix = (time) => time >= 31_536_000_000 && time < 7_258_118_400_000;
/** Return a moment in the reader's zone, without its day where that is today. */
function localText(ms) {
	const swedish = (date) => date.toLocaleString("sv-SE").split(" "); // which writes as ISO 8601 does
	const [day, time] = swedish(new Date(ms));
	return day === swedish(new Date())[0] ? time : `${day} ${time}`;
}

/** Return a time of an application or a moment: in the reader's zone, with UTC on hover. */
function when(time) {
	if (time == null) return soft("–");
	if (!isUnix(time)) return h("span.n", String(time));
	const iso = new Date(time).toISOString();
	return h("time", { datetime: iso, title: `${iso.replace(/[TZ]/g, " ")}UTC` }, localText(time));
}

const UNITS = { d: 86_400_000, h: HOUR, m: 60_000, s: 1000, ms: 1 };

/** Return a duration by its `parts` largest units, as the command line writes it: "1h 5m"; below 0 it is "0s". */
function lasting(ms, parts = 2) {
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
const apart = (ms, time) => (isUnix(time) ? lasting(ms) : ms);

/** Return a time, and how far it is beyond another: "10:30 (+65m)". */
function whenBeyond(time, from) {
	if (time == null || from == null || time === from) return when(time);
	const text = time > from ? `+${apart(minus(time, from), time)}` : `−${apart(minus(from, time), time)}`;
	return [when(time), ` (${text})`];
}

/** Read "1h 30m"; returns ms, NaN where it is no duration. */
function durationMs(text) {
	const parts = text.trim().split(/\s+/).map((part) => /^(\d+)(ms|[smhd])$/.exec(part));
	return parts.reduce((sum, part) => (part ? sum + part[1] * UNITS[part[2]] : NaN), 0);
}

const inWords = (name) => name.replaceAll("_", " ");
const counted = (count) => count.toLocaleString("en");
const many = (count, one) => `${counted(count)} ${one}${count === 1 ? "" : "s"}`;
const listed = (names) =>
	names.length < 2 ? (names[0] ?? "no writer") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
const shownPosition = (position) =>
	Object.entries(position).map(([segment, offset]) => `${segment}:${offset}`).join(" ") || "–";

// --- The controller

class Problem extends Error {
	constructor(status, body) {
		super(body.detail ?? `status ${status}`);
		Object.assign(this, { status, code: body.code });
	}
}

const TOKEN = "noted-time-token";
const base = new URL(".", location.href.split("#")[0]);
let askingForToken = null;

/** Return the answer's body; asks for a token where one is needed, and then goes on. */
async function call(method, path, { query = {}, body } = {}) {
	const url = new URL(path, base);
	for (const [name, value] of Object.entries(query)) {
		for (const each of [value].flat()) if (each != null && each !== "") url.searchParams.append(name, each);
	}
	const token = sessionStorage.getItem(TOKEN);
	const headers = { Accept: "application/json", ...(token && { Authorization: `Bearer ${token}` }) };
	if (body) headers["Content-Type"] = "application/json";
	const answer = await fetch(url, { method, headers, signal: AbortSignal.timeout(ANSWER_MS), body: body && written(body) });
	const found = await answer.text().then(parsed).catch(() => null);
	if (answer.ok && found) return found;
	if (answer.status !== 401) throw new Problem(found ? answer.status : 502, found ?? { detail: "the server at this address is not a noted-time controller" });
	if (token === sessionStorage.getItem(TOKEN)) await (askingForToken ??= askForToken(token != null));
	return call(method, path, { query, body });
}

const streamPath = (...below) => ["v1", "streams", state.name, ...below].map(encodeURIComponent).join("/");
const get = (below, query) => call("GET", streamPath(...below), { query });
/** Change something by hand, with the reason. */
const change = (method, below, comment, body, query) => call(method, streamPath(...below), { query: { comment, ...query }, body });
const may = () => state.access?.administer;

// --- What is shown: the place in the address, the last answers, and what the reader chose

let chosen = {};
const state = { view: "", name: "", domain: null, data: {}, access: null, at: null, fault: null, skew: 0 };
let epoch = 0;
let round = 0;
let timer = 0;

function goTo() {
	let [, name = "", query] = /^#\/streams\/([^?]+)\??(.*)/.exec(location.hash) ?? [];
	try { name = decodeURIComponent(name); } catch { /* is shown as it was typed */ }
	const isSame = state.view && name === state.name;
	Object.assign(state, { view: name ? "stream" : "streams", name, domain: new URLSearchParams(query).get("domain") });
	chosen = { picked: [], entries: PAGE };
	if (!isSame) state.at = null;
	state.data = isSame ? { stream: state.data.stream } : {};
	document.title = `${name || "Streams"} · noted-time`;
	$("#main").replaceChildren(h("p.empty", "Loading…"));
	poll(true);
}

const loadAlignments = async () => (await call("GET", "v1/alignments", { query: { limit: PAGE } })).alignments;

/** What a view asks for: in every how many-th round, and how. */
const FEEDS = {
	streams: {
		overview: [1, () => call("GET", "v1/overview", { query: { search: chosen.search, start: chosen.start, limit: PAGE } })],
		alignments: [2, loadAlignments],
	},
	stream: {
		explain: [1, () => get(["explain"], { domain: domain(), limit: 3, exclude: chosen.picked })],
		writers: [1, () => get(["writers"], { domain: domain(), search: chosen.search, start: chosen.start, limit: PAGE })],
		history: [2, loadHistory],
		windows: [4, loadWindows],
		alignments: [2, loadAlignments],
		groups: [2, () => get(["reader-groups"], { limit: PAGE, after: chosen.groupsAfter })],
		group: [2, () => chosen.group && get(["reader-groups", chosen.group])],
		segments: [4, () => get(["segments"], { domain: domain(), limit: PAGE, start: chosen.segment })],
		ledger: [2, () => get(["ledger"], { domain: domain(), order: "newest", limit: chosen.entries })],
		changes: [2, () => get(["changes"], { limit: chosen.entries })],
		stream: [4, () => get([])],
	},
};

function domain() {
	const declared = state.data.stream.domains;
	return state.domain ?? (declared.includes("default") ? "default" : declared[0]);
}

/** Ask for the marks of the last hour at first, for all there are where none was made in it. */
/** Load the last complete hours, where times are Unix ms. */
async function loadWindows() {
	const lower = state.data.stream.marks[domain()]?.lower;
	return isUnix(lower) ? get(["windows"], { domain: domain(), after: lower - 13 * HOUR, limit: 13 }) : { windows: [] };
}

async function loadHistory() {
	const ask = (from, points) => get(["history"], { domain: domain(), from, points });
	if (chosen.range === undefined) {
		const { now, first_at: first, points } = await ask(null, 1);
		Object.assign(chosen, { first, range: points.length && now - points[0].at > HOUR ? null : HOUR });
	}
	// a young stream fills the width
	const from = Math.max(chosen.first, chosen.range && Math.round(Date.now() + state.skew - chosen.range));
	return ask(from || null, 600);
}

/** Ask for what is due, for all of it with `all`, and show the answers. */
async function poll(all = false) {
	clearTimeout(timer);
	const mine = ++epoch;
	round = all ? 0 : round + 1;
	try {
		state.access ??= await call("GET", "v1/access");
		if (state.view === "stream") state.data.stream ??= await get([]);
		const due = Object.entries(FEEDS[state.view]).filter(([name, [every]]) => !(name in state.data) || round % every === 0);
		const found = await Promise.all(due.map(async ([name, [, load]]) => [name, await load()]));
		if (mine !== epoch) return;
		Object.assign(state.data, Object.fromEntries(found));
		const { now } = state.data.overview ?? state.data.explain;
		Object.assign(state, { at: Date.now(), fault: null, skew: now - Date.now() });
	} catch (fault) {
		if (mine !== epoch) return;
		state.fault = fault;
	}
	if (state.fault?.status !== 401) timer = setTimeout(() => document.hidden || poll(), POLL_MS);
	render();
}

function choose(changes) {
	Object.assign(chosen, changes);
	poll(true);
}

// --- The page as a whole

function render() {
	renderFault();
	const { fault, data } = state;
	if (fault?.code === "unknown_writer") chosen.picked = []; // one of them was forgotten meanwhile
	if (isMissing(fault)) $("#main").replaceChildren();
	else if (data.overview) show($("#main"), h("main", streamsView(data)));
	else if (data.explain) show($("#main"), h("main", streamView(data)));
	else $("#main").replaceChildren(); // the alert says why
	$("#token").hidden = !(state.access?.tokens || fault?.status === 401);
}

/** Whether there is no such stream or domain, nor may there be. */
const isMissing = (fault) => /unknown_(stream|domain)/.test(fault?.code) || (!state.data.explain && [404, 422].includes(fault?.status));

function renderFault() {
	const { fault, at } = state;
	const pulse = $("#pulse");
	pulse.className = `pulse ${fault ? "gone" : "live"}`;
	pulse.textContent = fault ? "not live" : "live";
	const alert = $("#alert");
	if (!fault) return alert.replaceChildren();
	const age = at && h("span", { "aria-live": "off" }, lasting(Date.now() - at));
	const asOf = at && !isMissing(fault) && [" What is shown is ", age, " old, as of ", when(at), "; trying again."];
	show(alert, h("div", ...faultText(fault), asOf ?? ""));
}

function faultText(fault) {
	if (!(fault instanceof Problem) || fault.status >= 500) {
		const why = fault instanceof Problem ? `: ${fault.message}` : "";
		return [`No answer from the controller${why}.`];
	}
	if (isMissing(fault)) {
		const domain = state.data.stream && fault.code !== "unknown_stream" ? ` with the domain ${state.domain}` : "";
		return [`There is no stream ${state.name}${domain}. `, h("a", { href: "#/" }, "All streams")];
	}
	if (fault.status === 401) return ["A token is needed to see anything here. ", button("Enter a token", "token")];
	if (fault.status === 403) return [`The controller refused: ${fault.message}. `, useAnother()];
	return [`The controller refused: ${fault.message}.`];
}

const useAnother = () => button("Use another token", "token");

setInterval(() => state.fault && renderFault(), 1000);

/** A part of the page, with its name and `beside` on top, unless that is null. */
const section = (label, beside, ...children) =>
	h("section", { "aria-label": label }, beside && h("div.title", h("h2", label), beside), children);
const tr = (key, ...cells) => h("tr", { "data-key": key }, cells);

/** A table of rows, its columns named by the cells of the first, `heads` apart; without rows a sentence. */
const table = (label, rows, none, heads = {}) => {
	if (!rows.length) return h("p.empty", none);
	const named = [...rows[0].cells].map(({ dataset, classList }) =>
		h(classList.contains("num") ? "th.num" : "th", { scope: "col" }, heads[dataset.label] ?? dataset.label));
	return h("div.wide", h("table.stack", { "aria-label": label }, h("thead", h("tr", named)), h("tbody", rows)));
};

/** Buttons to the page before and after; `name` is where the choice of a page is kept. */
function pages(name, shown, total, next) {
	const start = chosen[name] ?? 0;
	if (!start && next == null) return null;
	return h("div.pages", h("span.soft.n", `${start + 1}–${start + shown}${total == null ? "" : ` of ${counted(total)}`}`),
		chooser("Previous", { [name]: Math.max(0, start - PAGE) }, null, { disabled: !start }),
		chooser("Next", { [name]: next }, null, { disabled: next == null }));
}

const searchBox = (label) =>
	h("input", { type: "search", "aria-label": label, placeholder: "Search", autocomplete: "off" });

const isHeld = ({ decision, held_for_ms: held }) => decision === "hold" && held >= HELD_MS;
const andOthers = (holders, what) => (holders > 1 ? ` and ${many(holders - 1, what)}` : "");

/** Whether each writer that has not finished is excluded, so that nothing is left to move the watermark. */
const isAbandoned = (counts) => counts?.excluded > 0 && !counts.live && !counts.idle;

/** How a domain is, in a word, from a row of the overview or an explanation, and the counts of its writers. */
function condition(row, counts) {
	const { decision, lower, held_for_ms: held, times_out_in_ms: left } = row;
	if (decision == null) return ["no answer", "bad"];
	if (decision === "quiet" && isAbandoned(counts)) return ["all writers excluded", "bad"];
	if (decision === "quiet" || decision === "sealed") return [decision];
	if (isHeld(row)) return [`held ${lasting(held)}`, held > 2 * (left ?? Infinity) ? "bad" : "warn"];
	return lower == null ? ["no mark yet"] : ["advancing", "ok"];
}
const KINDS = { live: "ok", open: "ok", truncated: "warn", excluded: "bad" };
const pill = ([text, kind = KINDS[text] ?? ""]) => h("span", { class: `pill ${kind}` }, text);

// --- The list of streams

function streamsView({ overview: { now, streams, total, unanswered, next }, alignments }) {
	const { search } = chosen;
	const isEmpty = total === 0 && !search;
	return [
		h("div.head", h("h1", "Streams"),
			h("span.soft.n", counted(total)),
			!isEmpty && searchBox("Search streams")),
		unanswered > 0 && h("p.fault", `${many(unanswered, "stream")} without a controller that answers: shown as last stored.`),
		isEmpty ? emptyList() : section("Streams", null,
			table("Streams", streams.flatMap((stream) => stream.domains.map((row) => streamRow(stream, row, now))), `No stream has “${search}” in its name.`),
			pages("start", streams.length, total, next)),
		alignments.length > 0 && alignmentsSection(alignments),
	];
}

function streamRow(stream, row, now) {
	const isOne = stream.domains.length === 1;
	const lag = isUnix(row.lower) ? lasting(now - row.lower) : "–";
	return tr(`${stream.name}/${row.domain}`,
		cell("Stream.bare.name", h("a", { href: address(stream.name, isOne ? "" : row.domain) }, stream.name), !isOne && soft(` ${row.domain}`)),
		cell("Watermark", when(row.lower)),
		cell("Lag.num.n", lag),
		cell("Last hour.bare", spark(row.lag)),
		cell("State.bare", pill(condition(row, stream.writers))),
		cell("Held by", isHeld(row) && [h("strong", row.held_by), andOthers(row.holders, "other"), row.times_out_in_ms != null && soft(`, out in ${lasting(row.times_out_in_ms)}`)]),
		cell("Writers.bare", stream.writers && writerCounts(stream.writers)));
}

function writerCounts(counts) {
	const shown = Object.entries(counts).filter(([, count]) => count);
	return h("span.counts", shown.map(([name, count]) => pill([`${counted(count)} ${name}`, KINDS[name]])));
}

function spark(lag) {
	const known = lag.map((value, place) => [place, value]).filter(([, value]) => value != null);
	if (known.length < 2) return null;
	const most = greatest([1, ...known.map(([, value]) => value)]);
	const points = known.map(([place, value]) => `${(place / (lag.length - 1)) * 92},${(21 - share(value, 0, most) * 19).toFixed(1)}`);
	return svg("svg", { class: "spark", viewBox: "0 0 92 22", role: "img", "aria-label": `lag, at most ${lasting(most)}` },
		svg("polyline.lower", { points: points.join(" ") }));
}

/** What a list without a stream says; a token that may not read all of them does not know that there is none. */
const emptyList = () => (state.access?.read_all === false
	? h("p.empty", "This token does not give the right to read any of the streams. ", useAnother())
	: firstSteps());

function firstSteps() {
	const url = base.href.replace(/\/$/, "");
	const steps = [
		["See a stream move, with one slow writer", `noted-time demo-stream --url ${url}`],
		["Make a stream of your own", `noted-time stream create orders --url ${url}`],
		["Note time, from anything that speaks HTTP", `curl ${url}/v1/streams/orders/notes --json '{"notes": [{"writer": "shop-2", "time": 1357038000000, "position": {"1": 80}}]}'`],
	];
	return section("First steps", soft("There are no streams yet."),
		steps.map(([label, code]) => [h("p", `${label} `, button("Copy", "copy", { text: code }, { "aria-label": `Copy: ${label}` })), h("pre", { tabindex: 0 }, h("code", code))]));
}

// --- Alignments

const alignmentsSection = (alignments) => section("Alignments", [alignments.length === PAGE && soft(`the first ${PAGE}`)], table("Alignments", alignments.map((row) => {
	const { name, answered, bound, drift, max_drift: most, held_by: holder, members, members_total: total } = row;
	return tr(name, cell("Alignment.bare.name", name),
		cell("Bound", answered ? when(bound) : pill(["no answer", "bad"])),
		cell("Drift.n", drift != null && `${apart(drift, bound)} of ${apart(most, bound)}`),
		cell("Held by", holder && memberLink([holder, members[holder]])),
		cell("Members", Object.entries(members).slice(0, 9).map(memberText), total > 9 && `and ${total - 9} more`));
})));

/** A member's name, which leads to its stream where it is a reader group. */
const memberLink = ([name, { group }]) => (group ? h("a", { href: address(group.stream, group.domain) }, name) : name);

function memberText(named) {
	const { time, state: is, counted: counts, at_bound: isFar, silent_for_ms: silent } = named[1];
	const why = is !== "live" ? is : time == null ? "no time yet" : `silent for ${lasting(silent)}`;
	return h(counts ? "p" : "p.soft", memberLink(named), " ", when(time), " ", counts ? isFar && pill(["at the bound", "warn"]) : why);
}

// --- One stream

function streamView(data) {
	const scale = scaleOf(data);
	const domains = data.stream.domains;
	return [
		h("div.head", h("a", { href: "#/" }, "Streams"), soft("/"), h("h1", state.name),
			domains.length > 1 && h("nav.tabs", { "aria-label": "Domains" }, domains.map((name) =>
				h("a", { href: address(state.name, name), "aria-current": name === domain() && "page" }, name)))),
		whySection(data), writersSection(data, scale), historySection(data.history), windowsSection(data.windows),
		h("div.pair", readersSection(data, scale), segmentsSection(data)),
		ledgerSection(data), settingsSection(data.stream),
	];
}

function whySection({ explain, writers: { states } }) {
	const { lower, now } = explain;
	const row = { ...explain, ...explain.waiting_for[0] };
	return section("Why", null, h("div.why",
		h("div", h("div.soft", "Watermark"), h("div.big", when(lower)),
			h("div.soft.n", isUnix(lower) ? `${lasting(now - lower)} behind the clock` : "")),
		h("div.said", whyText(row, states).map((line) => h("p", line)),
			h("p.counts", pill(condition(row, states)), writerCounts(states)))));
}

function whyText(row, states) {
	const { lower, now, holders, waiting_for: [first], decision, would } = row;
	const lines = [];
	if (decision === "sealed") lines.push(["The stream is sealed: this is its last mark."]);
	else if (decision === "quiet" && isAbandoned(states)) lines.push(["Every writer that has not finished is excluded: the watermark advances again when one of them notes a later time."]);
	else if (decision === "quiet") lines.push(["No writer is waited for, and all that was noted is marked."]);
	else if (!first) lines.push(["The watermark is about to advance."]);
	else {
		const name = h("strong", first.writer);
		const others = andOthers(holders, "other writer");
		if (!isHeld(row) && lower != null) lines.push(["The watermark is advancing. ", name, others, holders > 1 ? " are the slowest." : " is the slowest."]);
		else {
			const held = first.time == null ? ", which joined and has not noted a time yet," : "";
			const verb = holders > 1 ? "hold" : "holds";
			lines.push([name, others, `${held} ${verb} the watermark back, for ${lasting(first.held_for_ms)}, since `, when(now - first.held_for_ms), "."]);
			lines.push(["If it stays silent, it is excluded in ", h("strong", lasting(first.times_out_in_ms)), "."]);
		}
		lines.push(withoutText([first.writer], row.lower_without[first.writer], lower, holders));
	}
	if (would) lines.push(withoutText(chosen.picked, would.lower, lower, 0));
	lines.push(...row.hints.map(({ writer, detail }) => [h("strong", writer), " ", detail]));
	return lines;
}

function withoutText(names, without, lower, holders) {
	const who = names.length > 1 ? ["Without ", h("strong", listed(names)), ": "] : "Without it: ";
	if (without != null && without !== lower) return [who, h("strong", whenBeyond(without, lower))];
	return [who, "no change", holders > 1 ? `, ${many(holders - 1, "other writer")} held as well.` : "."];
}

/** The axis of the strip: from the watermark to the latest time, and a little below for who is late. */
function scaleOf({ explain: { lower }, writers, groups }) {
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

function barElement(kind, scale, from, to) {
	const [left, right] = [scale.at(from), scale.at(to)].sort((one, other) => one - other);
	return h("i", { class: kind, "data-left": left.toFixed(2), "data-width": (right - left).toFixed(2) });
}
const watermarkLine = (scale) => scale.lower != null && h("b", { "data-left": scale.at(scale.lower).toFixed(2) });

const axis = ({ low, high }) => [h("span.hidden", "Noted time, beyond the watermark"), h("div.axis", { "aria-hidden": "true" }, when(low), when(high))];

function writersSection(data, scale) {
	const { writers: rows, total, next, now } = data.writers;
	return section("Writers", [h("span.soft.n", counted(total)), searchBox("Search writers")],
		table("Writers", rows.map((row) => writerRow(row, data, scale, now)),
			chosen.search ? "No writer has that in its name." : "No writer has noted yet.", { "Noted time": scale && axis(scale) }),
		pages("start", rows.length, total, next));
}

function writerRow(row, { explain: { lower } }, scale, now) {
	const name = row.writer;
	const time = row.times[domain()];
	const holds = row.times_out_in_ms != null;
	const kind = holds ? "holds" : row.state === "live" ? "" : "rests";
	const bar = scale && (time == null ? row.state === "live" && h("span.off", "◂ no time yet")
		: time < scale.low ? h("span.off", "◂ ", when(time)) : barElement(kind, scale, lower ?? scale.low, time));
	const out = row.held_until > now ? ["held until ", when(row.held_until)] : holds ? lasting(row.times_out_in_ms) : "";
	return tr(name,
		cell("Writer.bare.name", h("label", h("input", { type: "checkbox", "data-act": "pick", "data-writer": name, "aria-label": `What if without ${name}` }), name)),
		cell("State.bare", pill(writerState(row, holds, now))),
		cell("Noted time.bare.strip", scale && h("div.track", bar, watermarkLine(scale))),
		cell("Noted", when(time)),
		cell("Last heard.n", isUnix(row.noted_at) ? h("span", { title: when(row.noted_at).title }, `${lasting(now - row.noted_at)} ago`) : ""),
		cell("Times out in.n", out),
		cell("Without it.n", row.lower_without != null && (row.lower_without === lower ? soft("no change") : whenBeyond(row.lower_without, lower))),
		cell("Actions.bare.act", may() && writerButtons(row, now)));
}

function writerState(row, holds, now) {
	if (row.excluded) return [`excluded: ${inWords(row.excluded.reason)}${row.holding_since == null ? "" : "; back, and holds"}`, "bad"];
	if (holds) return [row.holding_since == null ? "holds" : `holds ${lasting(now - row.holding_since)}`, now - row.holding_since >= HELD_MS ? "warn" : "ok"];
	return [row.state];
}

function writerButtons({ writer, state: is, held_until: until, excluded, noted_at, holding_since }, now) {
	const one = (label, act, told) => button(label, act, { writer }, { class: "quiet", "aria-label": told });
	return [
		until > now ? one("End hold", "release", `End the hold of ${writer}`) : (is === "live" || holding_since != null) && one("Hold…", "hold", `Hold ${writer}…`),
		(excluded?.reason !== "removed" || noted_at > excluded.since) && one("Remove…", "remove", `Remove ${writer}…`),
	];
}

function readersSection({ groups, group, explain, alignments }, scale) {
	const name = domain();
	const rows = groups.groups.flatMap((row) => {
		const window = row.windows[name] ?? {};
		const isOpen = chosen.group === row.group;
		const range = scale && window.lower != null && barElement("range", scale, window.lower, window.upper ?? greatest([scale.high, window.lower]));
		const behind = row.behind[name];
		return [
			tr(row.group,
				cell("Group.bare.name", chooser(row.group, { group: isOpen ? null : row.group }, null, { class: "quiet", "aria-expanded": String(isOpen) }),
					alignments.filter(({ members }) => Object.values(members).some(({ at_bound: isFar, group: is }) => isFar && is?.stream === state.name && is.group === row.group))
						.map((each) => pill([`at the bound of ${each.name}, held by ${each.held_by}`, "warn"]))),
				cell("Lower to upper.bare.strip", scale && h("div.track", range, watermarkLine(scale))),
				cell("Complete to", when(window.lower)),
				cell("Behind.n", behind == null ? (explain.lower == null ? "" : "before the first mark") : behind === 0 ? "up to date" : apart(behind, explain.lower)),
				cell("Readers.num.n", row.readers)),
			isOpen && group && tr(`${row.group}/`, cell("Readers of it.bare", { colspan: 5 }, group.backlog && h("p", pill(["backlog", "warn"]), ` by ${listed(group.because.map(({ reason, reader }) => reader ?? inWords(reason)))}`),
				Object.entries(group.readers).map(([reader, position]) => h("p", h("strong", reader), " ", h("span.n", shownPosition(position)), group.lags[name]?.[reader]?.behind > 0 && soft(`, ${apart(group.lags[name][reader].behind, explain.lower)} behind`))))),
		];
	});
	return section("Readers", [],
		table("Readers", rows, "No reader group has reported a position."),
		groups.next != null && h("div.pages", chooser("More groups", { groupsAfter: groups.next })));
}

function segmentsSection({ segments: { segments, next }, stream }) {
	const rows = segments.map((row) =>
		tr(row.segment, cell("Segment.num.n", row.segment),
			cell("State.bare", pill([row.state]), row.successors.length > 0 && soft(` → ${row.successors.join(", ")}`)),
			cell("From.num.n", row.first_offset ?? "–"), cell("To.num.n", row.last_offset ?? "–"),
			cell("Complete to", when(row.last_lower)),
			cell("Written by", `${row.writers.slice(0, 3).join(", ")}${row.writers_total > 3 ? ` and ${row.writers_total - 3} more` : ""}`)));
	return section("Segments", may() && h("span.counts", button("Truncate…", "truncate"), !stream.seal && button("Seal…", "seal")),
		table("Segments", rows, "No mark has named a segment yet."),
		pages("segment", segments.length, null, next));
}

function ledgerSection({ ledger, changes }) {
	const went = ledger.entries.map((entry) => ({ ...entry, key: `m${entry.seq}`, what: entryText(entry) }));
	const made = changes.changes.map((change) => ({ ...change, key: `c${change.number}`, what: changeText(change) }));
	const rows = [...went, ...made].sort((a, b) => b.at - a.at);
	return section("Ledger", [soft("marks that advanced without a writer, and manual changes")],
		table("Ledger", rows.map((row) =>
			tr(row.key, cell("When.bare", when(row.at)), cell("What.bare.name", row.what),
				cell("From", row.from !== undefined && when(row.from)), cell("To", row.to !== undefined && whenBeyond(row.to, row.from)),
				cell("By.n", row.by), cell("Why", row.comment))), "Nothing yet."),
		(ledger.next != null || changes.next != null) && chosen.entries < 1000 && h("div.pages", chooser("Older entries", { entries: Math.min(1000, chosen.entries + PAGE) })));
}

function entryText({ writers, returned }) {
	const absent = writers.filter((each) => !/late_rows|corrected/.test(each.reason)).map((each) => `${each.writer} (${inWords(each.reason)})`);
	const corrected = writers.filter((each) => each.reason === "corrected").map((each) => `position of ${each.writer} corrected to ${shownPosition(each.position)}`);
	const late = writers.filter((each) => each.late).map((each) => `${each.writer} wrote ${many(each.late.rows, "late row")}`);
	return [absent.length && `advanced without ${listed(absent)}`, returned.length && `no longer missing: ${listed(returned)}`, ...corrected, ...late].filter(Boolean).join("; ");
}

function changeText({ action, writer, was, is }) {
	if (action === "settings") return Object.keys(is).map((name) => `${settingName(name)}: ${settingText(name, was?.[name])} → ${settingText(name, is[name])}`).join("; ");
	if (action === "held") return `${writer} held for ${lasting(is.for_ms)}`;
	if (action === "truncated") return `truncated at ${shownPosition(is.cut)}`;
	if (action === "scaled") return `scaled: sealed ${shownPosition(is.sealed)}, created ${Object.keys(is.created).join(", ") || "none"}`;
	if (action === "corrected") return `position of ${writer} corrected to ${shownPosition(is.position)} above ${shownPosition(is.above)}`;
	if (action === "taken_over") return `${writer} taken over from ${was.label} by ${is.label}`;
	return writer ? `${writer} ${action}` : inWords(action);
}

// --- How the watermark moved

const PLOT = { left: 142, right: 12, top: 16, height: 130 };

function historySection(history) {
	const { points, before } = history;
	const rows = points.slice(-200).reverse().map((point) =>
		h("tr", cell("Marked", when(point.at)), cell("Lower", when(point.lower)),
			cell("Upper", when(point.upper), !point.upper_is_bound && " (no bound)"),
			cell("Lag before.n", point.lag_ms == null ? "–" : lasting(point.lag_ms)),
			cell("Without", point.excluded.join(", "))));
	return section("History", h("span.counts", Object.entries(RANGES).map(([label, range]) => chooser(label, { range }, range === chosen.range))),
		points.length || before != null
			? [charts(history), rows.length > 0 && h("details", { "data-key": "table" }, h("summary", "As a table"), table("History", rows))]
			: h("p.empty", "There is no mark in this time."));
}

function windowsSection({ windows }) {
	const rows = windows.slice(-12).reverse().map((window) =>
		tr(`w${window.start}`, cell("From", when(window.start)), cell("To", when(window.end)),
			cell("Missing", missingText(window))));
	return rows.length > 0 && section("Complete hours", [soft("and the writers that the watermark passed them without")], table("Complete hours", rows));
}

function missingText({ missing, missing_count: count, missing_is_known: isKnown }) {
	const names = missing.slice(0, 5).map((each) => `${each.writer} (${inWords(each.reason)})`);
	if (count > names.length) names.push(`${counted(count - names.length)} more`);
	return [...names, !isKnown && "others are not known any more"].filter(Boolean).join(", ") || "–";
}

function charts({ from, to, before, points }) {
	const last = points.at(-1)?.lower ?? before;
	const isTime = isUnix(last);
	const width = Math.max(320, ($(".chart") ?? $("#main")).clientWidth);
	const frame = { from, to, width, cursor: points[chosen.cursor] };
	const low = before ?? points[0].lower;
	const lags = isTime ? lagLine(points, before, from, to) : [];
	const most = greatest([1, ...lags.map(([, lag]) => lag)]);
	const high = greatest([...points.map((point) => point.upper), isTime && most < 4 * (to - from) ? to : last]);
	const flags = points.filter((point) => point.excluded_marks);
	return h("div.chart", { tabindex: 0, role: "group", "aria-label": "History: arrow keys read the marks" },
		h("div.key", h("span.k-lower", "lower"), h("span.k-upper", "upper"), isTime && h("span.k-clock", "clock"),
			flags.length > 0 && h("span.k-flag", "advanced without a writer")),
		plot("lower and upper over wall time", frame, ticks(low, high, 5, isTime), (time) => (isUnix(time) ? localText(time) : time), [low, high], (x, y, line) => [
			isTime && high > from && svg("path.clock", { d: line([greatest([from, low]), least([to, high])].map((at) => [at, at])) }),
			svg("path.upper", { d: line(stepped(points, "upper", null, from, to)) }),
			svg("path.lower", { d: line(stepped(points, "lower", before, from, to)) }),
			flags.map(({ at, excluded }) => svg("path.flag", { d: `M${x(at) - 5} 2h10l-5 9z` }, svg("title", `advanced without ${listed(excluded)}`)))]),
		isTime && [h("div.key", h("span.k-lower", "lag behind the clock")),
			plot("lag over wall time", frame, ticks(0, most, 5, true), lasting, [0, most], (x, y, line) => svg("path.lag", { d: line([[lags[0][0], 0], ...lags, [to, 0]]) }))],
		frame.cursor && tip(frame));
}

const across = ({ from, to, width }) => (at) => PLOT.left + ((at - from) / Math.max(1, to - from)) * (width - PLOT.left - PLOT.right);

/** A frame with wall time across and values up; `draw` gets what places a moment, a value, a line. */
function plot(label, frame, values, name, [low, high], draw) {
	const { from, to, width, cursor } = frame;
	const x = across(frame);
	const y = (value) => (PLOT.top + PLOT.height * (1 - share(value, low, high))).toFixed(1);
	const line = (points) => `M${points.map(([at, value]) => `${x(at).toFixed(1)} ${y(value)}`).join("L")}`;
	const height = PLOT.height + PLOT.top + 18;
	const day = to - from > 20 * HOUR;
	return svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label },
		values.map((value) => [svg("path.grid", { d: `M${PLOT.left} ${y(value)}H${width - PLOT.right}` }),
			svg("text", { x: PLOT.left - 8, y: +y(value) + 4, "text-anchor": "end" }, String(name(value)))]),
		draw(x, y, line), cursor && svg("path.cursor", { d: `M${x(cursor.at)} ${PLOT.top}v${PLOT.height}` }),
		ticks(from, to, width / 150, true).map((at) => svg("text", { x: x(at), y: height - 4, "text-anchor": "middle" }, day ? localText(at).slice(0, -3) : localText(at).slice(-8))));
}

/** The corners of a line that goes on level from each mark to the next, and to the end. */
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

/** The lag just before and just after each mark, from the first to the last moment shown. */
function lagLine(points, before, from, to) {
	const marks = points.flatMap(({ at, lower, lag_ms: lag }) => [[at, lag ?? minus(at, lower)], [at, minus(at, lower)]]);
	const start = before == null ? [] : [[from, minus(from, before)]];
	return [...start, ...marks, [to, minus(to, points.at(-1)?.lower ?? before)]].map(([at, lag]) => [at, greatest([0, lag])]);
}

const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800];
const HOURS = [1, 2, 3, 6, 12, 24, 48, 96, 168];
const TIME_STEPS = [...SECONDS.map((each) => each * 1000), ...HOURS.map((each) => each * HOUR)];

/** The least of 1, 2, 5, 10, 20, … that is no less than that. */
function roundStep(size) {
	const ten = 10 ** Math.floor(Math.log10(Math.max(1, size)));
	return [ten, 2 * ten, 5 * ten].find((each) => each >= size) ?? 10 * ten;
}

/** Round values from `low` to `high`, at most `most` steps; as each step is at most 2.5 times the one before, no less than `most` / 2.5. */
function ticks(low, high, most, isTime) {
	const size = Number(minus(high, low)) / most;
	const fits = (each) => each >= size;
	const step = BigInt((isTime && size > 500 && TIME_STEPS.find(fits)) || roundStep(size));
	const shift = BigInt(isUnix(low) ? new Date(low).getTimezoneOffset() * 60_000 : 0);
	const rest = (BigInt(low) - shift) % step;
	const found = [];
	for (let at = BigInt(low) + (rest > 0n ? step - rest : -rest); at <= high; at += step) found.push(narrowed(at));
	return found;
}

function tip(frame) {
	const { at, seq, lower, upper, lag_ms: lag, excluded } = frame.cursor;
	const place = across(frame)(at);
	const isLeft = place > frame.width / 2;
	return h("div.tip", { "aria-live": "polite", "data-left": ((place + (isLeft ? -12 : 12)) / frame.width) * 100, "data-side": isLeft && "left" },
		h("div", `mark ${seq} at `, when(at)),
		h("div", "lower ", when(lower)), h("div", "upper ", when(upper)),
		lag != null && isUnix(lower) && h("div", `lag before it ${lasting(lag)}`),
		excluded.length > 0 && h("div", `without ${listed(excluded)}`));
}

function moveCursor(pick) {
	const { points } = state.data.history;
	chosen.cursor = pick && points.length ? Math.min(points.length - 1, Math.max(0, pick(points))) : null;
	show($("section[aria-label=History]"), historySection(state.data.history));
}

// --- Settings

const NO_SETTING = new Set(["name", "id", "marks", "scale_events", "corrections", "seal"]);
const settingsOf = (stream) => Object.keys(stream).filter((name) => !NO_SETTING.has(name));

/** "writer_timeout_ms" → "Writer timeout". */
const settingName = (name) => inWords(name[0].toUpperCase() + name.slice(1)).replace(/ ms$/, "");
function settingText(name, value) {
	if (value == null) return "none";
	return Array.isArray(value) ? value.join(" ") || "–" : name.endsWith("_ms") ? lasting(value, 9) : String(value);
}

function settingsSection(stream) {
	return section("Settings", [may() && button("Edit settings…", "settings")],
		h("dl.settings", settingsOf(stream).map((name) => h("div", h("dt", settingName(name)), h("dd", settingText(name, stream[name]))))));
}

// --- Operator actions: each change shows its dry run first, asks why, and is undone where it can be

const labelled = (label, field, hint) => [h("label", { for: field.id }, label), field, hint && h("p.hint", hint)];
const input = (id, given) => h("input", { id, name: id, required: true, autocomplete: "off", ...given });

/** A dialog of a form: `submitted` may keep it open by `event.preventDefault()`. */
function open(title, parts, verb, submitted) {
	const dialog = h("dialog", { "aria-label": title }, h("form", { method: "dialog" }, h("h2", title), parts,
		h("div.buttons", button("Cancel", "cancel"), verb)));
	dialog.onclose = () => dialog.remove();
	dialog.firstChild.onsubmit = submitted;
	document.body.append(dialog);
	dialog.showModal();
	return dialog;
}

/** Ask in a dialog. `dryRun` gives what would follow; `act` does it, and says what happened. */
function ask({ title, verb, fields = [], isHarmful = true, dryRun, act }) {
	const dry = h("div.dry", { "data-role": "dry-run", "aria-live": "polite" }, "…");
	const why = input("why", { maxlength: 500 });
	const fault = h("p.fault", { role: "alert" });
	const tried = async (work) => {
		fault.textContent = "";
		await work().catch((problem) => { fault.textContent = problem instanceof Problem ? problem.message : "No answer from the controller; try again."; });
	};
	let looks = 0;
	const look = (note) => tried(async () => {
		const mine = ++looks;
		const lines = await dryRun(form);
		if (mine === looks) dry.replaceChildren(...[note, ...lines].filter(Boolean).map((line) => h("p", line)));
	});
	const submitted = (event) => {
		event.preventDefault();
		tried(async () => {
			const note = await act(form, why.value.trim());
			if (note) return look(h("strong", note));
			dialog.close();
			poll(true);
		});
	};
	const dialog = open(title, [dry, fields, labelled("Why?", why, "Kept with the change."), fault], h(isHarmful ? "button.danger" : "button.main", verb), submitted);
	const form = dialog.firstChild;
	form.oninput = ({ target }) => target !== why && look();
	look();
}

let saying = 0;
function say(text, undo) {
	clearTimeout(saying);
	const undoing = undo && h("button", "Undo");
	if (undoing) undoing.onclick = () => undo().then(() => say("Undone."), (problem) => say(`Not undone: ${problem.message}`)).then(() => poll(true));
	$("#status").replaceChildren(text, undoing ?? "");
	saying = setTimeout(() => $("#status").replaceChildren(), undo ? 30_000 : 8000);
}

/** What each domain would do, in words. */
async function wouldText(query, consequence) {
	const names = state.data.stream.domains;
	const found = await Promise.all(names.map((name) => get(["explain"], { ...query, domain: name, limit: 1 })));
	return found.map(({ lower, would }, place) => {
		const which = names.length > 1 ? `${names[place]}: ` : "";
		if (would.decision === "advance") return [which, "The watermark advances from ", when(lower), " to ", whenBeyond(would.lower, lower), ". ", consequence(would)];
		return [which, "The watermark stays at ", when(lower), would.decision === "hold" ? ": another writer holds it as well." : ": no writer is waited for any more."];
	});
}

const lateBelow = (who) => (would) => [`What ${who} below `, when(would.lower), " is then late."];

function askToRemove({ writer: name }) {
	let seen = null;
	ask({
		title: `Remove ${name} from ${state.name}`, verb: "Remove",
		dryRun: async () => {
			seen = (await get(["writers", name])).noted_at;
			const lines = await wouldText({ exclude: name }, lateBelow(`${name} writes`));
			return [...lines, [`This cannot be undone, as time never goes back; with its next note ${name} is a member again.`]];
		},
		act: async (_, comment) => {
			try {
				await change("DELETE", ["writers", name], comment, undefined, { unless_noted_since: seen });
			} catch (problem) {
				if (problem.code === "noted_meanwhile") return `${name} has noted meanwhile. This is the dry run as of now:`;
				throw problem;
			}
			say(`${name} is removed.`);
		},
	});
}

function askToHold({ writer: name }) {
	const field = input("for", { value: "1h" });
	ask({
		title: `Hold ${name} in ${state.name}`, verb: "Hold", isHarmful: false,
		fields: labelled("For how long?", field, "As 90m, 4h or 1d."),
		dryRun: async () => {
			const forMs = durationMs(field.value);
			if (!(forMs > 0)) return ["Enter a duration, for example 90m."];
			const until = Date.now() + state.skew + forMs;
			return [[`${name} is not excluded before `, when(until), ", however long it is silent. Where it holds the watermark, the watermark waits for it until then."]];
		},
		act: async (_, comment) => {
			await change("POST", ["writers", name, "hold"], comment, { for_ms: durationMs(field.value) || 0 });
			say(`${name} is held.`, () => release(name, "undone"));
		},
	});
}

const release = (name, comment) => change("DELETE", ["writers", name, "hold"], comment);
async function endHold(name) {
	await release(name);
	say(`The timeout of ${name} counts again.`);
	poll(true);
}

/** A field of the form, with what the API's document says of its effect. */
function settingField(name, value, { description }) {
	const field = name === "returning_writer" ? h("select", { id: name, name }, ["hold", "exclude"].map((each) => h("option", { selected: each === value }, each)))
		: input(name, { required: false, value: settingText(name, value).replace("–", "") });
	return labelled(settingName(name), field, description);
}

/** The settings of a form that are not as they were; throws where one cannot be read. */
function changedSettings(form, was) {
	const changed = {};
	for (const name of settingsOf(was)) {
		const text = form.elements[name].value.trim();
		let value = text;
		if (Array.isArray(was[name])) value = text ? text.split(/[\s,]+/) : [];
		else if (text === "none" && /^max_(time|offset)/.test(name)) value = null;
		else if (name.endsWith("_ms")) value = durationMs(text);
		else if (name !== "returning_writer") value = /^\d+$/.test(text) ? narrowed(BigInt(text)) : NaN;
		if (Number.isNaN(value)) throw new Problem(422, { detail: `${settingName(name)}: enter ${name.endsWith("_ms") ? "a duration, for example 90m, 1h 30m or 500ms" : "a whole number"}` });
		if (written(value) !== written(was[name])) changed[name] = value;
	}
	return changed;
}

async function askForSettings() {
	const [was, document] = await Promise.all([get([]), call("GET", "openapi.json")]);
	const described = document.components.schemas.StreamChanges.properties;
	ask({
		title: `Settings of ${state.name}`, verb: "Save", isHarmful: false, fields: settingsOf(was).map((name) => settingField(name, was[name], described[name])),
		dryRun: async (form) => {
			const changed = changedSettings(form, was);
			const lines = Object.keys(changed).map((name) => [h("strong", settingName(name)), ` from ${settingText(name, was[name])} to ${settingText(name, changed[name])}.`]);
			const timeout = changed.writer_timeout_ms;
			const would = timeout ? await wouldText({ writer_timeout_ms: timeout }, ({ excluded, ...rest }) => [`Excluded: ${listed(excluded)}. `, lateBelow("they write")(rest)]) : [];
			return lines.length ? [...lines, ...would] : ["Nothing is changed yet."];
		},
		act: async (form, comment) => {
			const changed = changedSettings(form, was);
			const before = Object.fromEntries(Object.keys(changed).map((name) => [name, was[name]]));
			await change("PUT", [], comment, changed);
			say("The settings are saved.", !("domains" in changed) && (() => change("PUT", [], "undone", before)));
		},
	});
}

function askToTruncate() {
	const field = input("cut", { placeholder: "0:120 3:7" });
	const cut = () => {
		const parts = field.value.trim().split(/\s+/).map((part) => /^(\d+):(\d+)$/.exec(part));
		if (!parts.every(Boolean)) throw new Problem(422, { detail: "enter the cut as segment:offset, separated by spaces, for example 0:120 3:7" });
		return Object.fromEntries(parts.map(([, segment, offset]) => [segment, narrowed(BigInt(offset))]));
	};
	ask({
		title: `Truncate ${state.name}`, verb: "Truncate",
		fields: labelled("Where may readers begin?", field, "A cut: segment:offset, where the stream's own retention now begins."),
		dryRun: async () => {
			if (!field.value.trim()) return ["Marks that no reader from the cut on needs are dropped. This cannot be undone."];
			const { dropped, beyond: isBeyond } = await change("POST", ["truncate"], null, { cut: cut() }, { dry_run: true });
			const all = Object.entries(dropped).map(([name, count]) => `${many(count, "mark")} of ${name}`);
			return [[`${listed(all)} would be dropped, for good. A reader before the cut gets no lower bound.`], isBeyond && "The cut goes beyond the last mark: not all before it is complete."].filter(Boolean);
		},
		act: async (_, comment) => {
			await change("POST", ["truncate"], comment, { cut: cut() });
			say(`${state.name} is truncated.`);
		},
	});
}

function askToSeal() {
	const { live } = state.data.writers.states;
	ask({
		title: `Seal ${state.name}`, verb: "Seal",
		dryRun: async () => [
			"Each domain gets its last mark, at the end of what was noted, and no later note counts. This cannot be undone.",
			live > 0 && `Finished with it: ${many(live, "live writer")}.`,
		],
		act: async (_, comment) => {
			await change("POST", ["seal"], comment, {});
			say(`${state.name} is sealed.`);
		},
	});
}

/** Ask for a token; resolves once one is there, rejects where the reader would rather not. */
function askForToken(isRefused) {
	return new Promise((resolve, reject) => {
		const field = input("secret", { type: "password" });
		const told = isRefused ? "The token is unknown, expired or revoked." : ["This controller asks for a token. An operator makes one with ", h("code", "noted-time token create"), "."];
		const dialog = open("Token needed", [h("p", told), labelled("Token", field, "Kept for this tab alone.")], h("button.main", "Use token"), () => {
			sessionStorage.setItem(TOKEN, field.value.trim());
			state.access = null;
			resolve();
		});
		dialog.addEventListener("close", () => {
			askingForToken = null;
			reject(new Problem(401, { detail: "a token is needed" }));
		});
	});
}

// --- What the reader does

const ACTS = {
	choose: ({ choice }) => choose(parsed(choice)),
	pick: ({ writer }) => {
		const { picked } = chosen;
		choose({ picked: picked.includes(writer) ? picked.filter((each) => each !== writer) : [...picked, writer] });
	},
	cancel: (_, pressed) => pressed.closest("dialog").close(),
	copy: ({ text }) => navigator.clipboard.writeText(text).then(() => say("Copied."), () => say("Not copied: select the text.")),
	remove: askToRemove,
	hold: askToHold,
	release: ({ writer }) => endHold(writer).catch((problem) => say(`Not ended: ${problem.message}`)),
	settings: () => askForSettings().catch((problem) => say(problem.message)),
	truncate: askToTruncate,
	seal: askToSeal,
	token: () => { sessionStorage.removeItem(TOKEN); state.access = null; poll(true); },
};

let typing = 0;
document.addEventListener("click", (event) => {
	const pressed = event.target.closest("[data-act]");
	if (pressed) ACTS[pressed.dataset.act](pressed.dataset, pressed);
});
document.addEventListener("input", ({ target }) => {
	if (target.type !== "search") return;
	clearTimeout(typing);
	typing = setTimeout(() => choose({ search: target.value.trim(), start: 0 }), 200);
});
document.addEventListener("pointermove", ({ target, clientX }) => {
	const chart = target.closest?.(".chart");
	if (!chart) return chosen.cursor != null && !document.activeElement.closest(".chart") && moveCursor(null);
	const { left, width } = chart.getBoundingClientRect();
	const { from, to } = state.data.history;
	const at = from + ((clientX - left - PLOT.left) / (width - PLOT.left - PLOT.right)) * (to - from);
	moveCursor((points) => points.findLastIndex((point) => point.at <= at));
});
document.addEventListener("keydown", (event) => {
	const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
	if (!step || !event.target.classList.contains("chart")) return;
	event.preventDefault();
	moveCursor((points) => (chosen.cursor ?? points.length) + step);
});
document.onvisibilitychange = () => document.hidden || poll(true);
$("#token").onclick = ACTS.token;
onhashchange = goTo;
onresize = () => state.data.history && render();
goTo();
