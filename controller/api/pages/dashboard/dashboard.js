// The dashboard shows which writer holds back the watermark, since when, and what a removal would change.
//
// Each round of answers from the API builds a new view, which is patched into the page.

import { access, forgetToken, Problem } from "./api.js";
import {
  askForSettings, askToRemove, askToResumeTimeout, askToSeal, askToSuspendTimeout, askToTruncate, say,
} from "./dialogs.js";
import { $, h, show } from "./elements.js";
import { pointAt, stepTo } from "./history.js";
import { streamsView, useAnother } from "./list.js";
import { button, heading, whenInZone } from "./parts.js";
import { address, choose, chosen, goTo, isMissing, poll, state } from "./state.js";
import { streamView } from "./stream.js";
import { chooseZone, chosenZone, lasting, parsed, ZONES } from "./values.js";

function render() {
  show($("#zones"), h("span", ZONES.map((zone) =>
    button(zone, "zone", { zone }, { class: "quiet", "aria-pressed": String(zone === chosenZone()) }))));
  renderFault();
  const { fault, data } = state;
  if (fault?.code === "unknown_writer") chosen.picked = []; // a picked writer was forgotten
  if (isMissing(fault)) show($("#main"), h("main", missingView(fault)));
  else if (data.overview) show($("#main"), h("main", streamsView(data)));
  else if (data.explain) show($("#main"), h("main", streamView(data)));
  else $("#main").replaceChildren();
  if (state.isNew && $("h1")) {
    state.isNew = false;
    $("h1").focus();
  }
  $("#token").hidden = !(access?.tokens || fault?.status === 401);
}

function renderFault() {
  const { fault, at } = state;
  const pulse = $("#pulse");
  const isLive = !fault || isMissing(fault);
  pulse.className = `pulse ${isLive ? "live" : "gone"}`;
  pulse.textContent = isLive ? "live" : "not live";
  const alert = $("#alert");
  if (isLive) return alert.replaceChildren();
  const age = at && h("span", { "aria-live": "off" }, lasting(Date.now() - at));
  const asOf = at && [" This page is ", age, " old, as of ", whenInZone(at), "; trying again."];
  show(alert, h("div", ...faultText(fault), asOf ?? ""));
}

function faultText(fault) {
  if (!(fault instanceof Problem)) return ["No answer from the controller."];
  const { status, message } = fault;
  if (status == null) return [message];
  if (status >= 500) return [`No answer from the controller: ${message}.`];
  if (status === 401) return ["A token is needed to see anything here. ", button("Enter a token", "token")];
  return [`The controller refused: ${message}. `, status === 403 && useAnother()];
}

function missingView({ code }) {
  const { stream, similarStreams = [] } = state.data;
  const all = h("p", h("a", { href: "#/" }, "All streams"));
  if (stream && code !== "unknown_stream") {
    const links = stream.domains.map((domain) => h("a", { href: address(state.name, domain) }, domain));
    const title = `There is no stream ${state.name} with the domain ${state.domain}`;
    return [h("div.head", heading(title)), h("p", "It has: ", commaSeparated(links)), all];
  }
  const links = similarStreams.map((name) => h("a", { href: address(name) }, name));
  return [
    h("div.head", heading(`There is no stream ${state.name}`)),
    links.length > 0 && h("p", "Did you mean ", commaSeparated(links), "?"), all,
  ];
}

/** Return links with a comma between them. */
const commaSeparated = (links) => links.flatMap((link, place) => (place ? [", ", link] : [link]));

/** The actions of buttons, which pass their data. */
const ACTS = {
  choose: ({ choice }) => choose(parsed(choice)),
  pick: ({ writer }) => {
    const { picked } = chosen;
    choose({ picked: picked.includes(writer) ? picked.filter((name) => name !== writer) : [...picked, writer] });
  },
  cancel: (_, pressed) => pressed.closest("dialog").close(),
  copy: ({ text }) =>
    navigator.clipboard.writeText(text).then(() => say("Copied."), () => say("Not copied: select the text.")),
  remove: askToRemove,
  suspend: askToSuspendTimeout,
  resume: askToResumeTimeout,
  settings: () => askForSettings().catch((problem) => say(problem.message)),
  truncate: askToTruncate,
  jump: ({ section }) => {
    const part = $(`section[aria-label="${section}"]`);
    part.scrollIntoView();
    part.focus();
  },
  seal: askToSeal,
  zone: ({ zone }) => {
    chooseZone(zone);
    render();
    poll(true);
  },
  token: () => {
    forgetToken();
    poll(true);
  },
};

let typing = 0;
document.addEventListener("click", ({ target }) => {
  const pressed = target.closest("[data-act]");
  if (pressed) ACTS[pressed.dataset.act](pressed.dataset, pressed);
});
document.addEventListener("input", ({ target }) => {
  if (target.type !== "search") return;
  clearTimeout(typing);
  typing = setTimeout(() => choose({ search: target.value.trim(), start: 0 }), 200);
});
document.addEventListener("pointermove", pointAt);
document.addEventListener("keydown", stepTo);
document.addEventListener("visibilitychange", () => document.hidden || poll(true));
document.addEventListener("answers", render);
$("#token").onclick = ACTS.token;
onhashchange = () => {
  clearTimeout(typing); // it would search in the next view
  goTo();
};
onresize = () => state.data.history && render();
setInterval(() => state.fault && renderFault(), 1000);
goTo();
