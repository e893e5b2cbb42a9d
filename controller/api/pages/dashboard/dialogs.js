// Dialogs for operators. Each shows a dry run and asks for a reason. Some changes can be undone.

import { call, Problem } from "./api.js";
import { explained, needlessText, proposedMs, unmovedText, wouldText } from "./dryruns.js";
import { $, h } from "./elements.js";
import { input, labelled, open, whenInZone } from "./parts.js";
import { change, get, poll, state } from "./state.js";
import { settingName, settingsOf, settingText } from "./stream.js";
import { durationMs, lasting, listed, many, narrowed, written } from "./values.js";

/** Open a dialog. `dryRun` returns the consequences or throws a 422. `act` makes the change and reports it. */
function ask({ title, verb, fields = [], isHarmful = true, dryRun, act }) {
  const dry = h("div.dry", { "data-role": "dry-run", "aria-live": "polite" }, "…");
  const why = input("why", { maxlength: 500 });
  const fault = h("p.fault", { role: "alert" });
  const showFault = async (work) => {
    fault.textContent = "";
    await work().catch((problem) => {
      fault.textContent = problem instanceof Problem ? problem.message : "No answer from the controller; try again.";
    });
  };
  let latestRun = 0;
  const showDryRun = (note) => showFault(async () => {
    const run = ++latestRun;
    let isPossible = true;
    const lines = await dryRun(form).catch((problem) => {
      if (problem.status !== 422) throw problem;
      isPossible = false;
      return [problem.message];
    });
    if (run !== latestRun) return;
    dry.replaceChildren(...[note, ...lines].filter(Boolean).map((line) => h("p", line)));
    press.disabled = !isPossible;
  });
  const submit = (event) => {
    event.preventDefault();
    showFault(async () => {
      const note = await act(form, why.value.trim());
      if (note) return showDryRun(h("strong", note));
      dialog.close();
      poll(true);
    });
  };
  const parts = [dry, fields, labelled("Why?", why, "Kept with the change."), fault];
  const press = h(isHarmful ? "button.danger" : "button.main", verb);
  const dialog = open(title, parts, press, submit);
  const form = dialog.firstChild;
  form.oninput = ({ target }) => target !== why && showDryRun();
  showDryRun();
}

let statusTimer = 0;
/** Show a status for some seconds. With `undo`, it has a button that undoes the change. */
export function say(text, undo) {
  clearTimeout(statusTimer);
  const undoButton = undo && h("button", "Undo");
  const undoAndSay = () => undo().then(() => say("Undone."), (problem) => say(`Not undone: ${problem.message}`));
  if (undoButton) undoButton.onclick = () => undoAndSay().then(() => poll(true));
  $("#status").replaceChildren(text, undoButton ?? "");
  statusTimer = setTimeout(() => $("#status").replaceChildren(), undo ? 30_000 : 8000);
}

export function askToRemove({ writer: name }) {
  let lastNotedAt = null;
  ask({
    title: `Remove ${name} from ${state.name}`, verb: "Remove",
    dryRun: async () => {
      const row = await get(["writers", name]);
      lastNotedAt = row.noted_at;
      const explanations = await explained({ exclude: name });
      const unmoved = await unmovedText(explanations, row);
      const warning = `This cannot be undone: time never goes back. Its next note makes ${name} a member again.`;
      return [...wouldText(explanations), unmoved, warning];
    },
    act: async (_, comment) => {
      try {
        await change("DELETE", ["writers", name], comment, undefined, { unless_noted_since: lastNotedAt });
      } catch (problem) {
        if (problem.code !== "noted_meanwhile") throw problem;
        return `${name} has noted meanwhile. This is the dry run as of now:`;
      }
      say(`${name} is removed.`);
    },
  });
}

export async function askToSuspendTimeout({ writer: name }) {
  const { components } = await call("GET", "openapi.json");
  const longest = components.schemas.SuspensionRequest.properties.for_ms.maximum;
  const proposed = proposedMs(await get(["writers", name]), longest);
  const field = input("for", { value: lasting(proposed, 9) });
  ask({
    title: `Wait longer for ${name} in ${state.name}`, verb: "Wait longer", isHarmful: false,
    fields: labelled("For how long?", field, "For example 90m, 4h or 1d."),
    dryRun: async () => {
      const forMs = durationMs(field.value);
      if (!(forMs > 0)) throw new Problem(422, { detail: "Enter a duration, for example 90m." });
      if (forMs > longest) {
        throw new Problem(422, { detail: `Too long: a timeout is suspended for ${lasting(longest)} at most.` });
      }
      const now = Date.now() + state.skew;
      const needless = needlessText(await get(["writers", name]), forMs, now);
      if (needless) throw new Problem(422, { detail: needless });
      const until = now + forMs;
      return [[`${name} is not excluded before `, whenInZone(until), ", however long it is silent. "
        + "If it holds back the watermark, the watermark waits for it until then."]];
    },
    act: async (_, comment) => {
      await change("POST", ["writers", name, "suspension"], comment, { for_ms: durationMs(field.value) });
      say(`The timeout of ${name} is suspended.`, () => resumeTimeout(name, "undone"));
    },
  });
}

const resumeTimeout = (name, comment) => change("DELETE", ["writers", name, "suspension"], comment);

export function askToResumeTimeout({ writer: name }) {
  ask({
    title: `Resume the timeout of ${name} in ${state.name}`, verb: "Resume timeout", isHarmful: false,
    dryRun: async () => {
      const { suspended_by: by, suspension_ends_at: until } = await get(["writers", name]);
      return [[`${by} suspended the timeout of ${name} until `, whenInZone(until),
        ". If it resumes, the writer is excluded at once if it has been silent for its timeout."]];
    },
    act: async (_, comment) => {
      await resumeTimeout(name, comment);
      say(`The timeout of ${name} applies again.`);
    },
  });
}

const marksOf = (dropped) =>
  listed(Object.entries(dropped).map(([name, count]) => `${many(count, "mark")} of ${name}`));

export function askToTruncate() {
  const field = input("cut", { placeholder: "0:120 3:7" });
  const cut = () => {
    const parts = field.value.trim().split(/\s+/).map((part) => /^(\d+):(\d+)$/.exec(part));
    const example = "Enter the cut as segment:offset, separated by spaces, for example 0:120 3:7.";
    if (!parts.every(Boolean)) throw new Problem(422, { detail: example });
    return Object.fromEntries(parts.map(([, segment, offset]) => [segment, narrowed(BigInt(offset))]));
  };
  ask({
    title: `Truncate ${state.name}`, verb: "Truncate",
    fields: labelled("Where may readers begin?", field,
      "A cut: segment:offset, where the stream's own retention now begins."),
    dryRun: async () => {
      if (!field.value.trim()) {
        return ["Marks that no reader from the cut on needs are dropped. This cannot be undone."];
      }
      const { dropped, beyond: isBeyond } =
        await change("POST", ["truncate"], null, { cut: cut() }, { dry_run: true });
      return [`${marksOf(dropped)} would be dropped, for good. A reader before the cut gets no lower bound.`,
        isBeyond && "The cut goes beyond the last mark: rows before the cut may still be written."];
    },
    act: async (_, comment) => {
      await change("POST", ["truncate"], comment, { cut: cut() });
      say(`${state.name} is truncated.`);
    },
  });
}

export function askToSeal() {
  const { live } = state.data.writers.states;
  ask({
    title: `Seal ${state.name}`, verb: "Seal",
    dryRun: async () => [
      "Each domain gets its last mark, and later notes are refused. This cannot be undone.",
      live > 0 && `This finishes ${many(live, "live writer")}.`,
    ],
    act: async (_, comment) => {
      await change("POST", ["seal"], comment, {});
      say(`${state.name} is sealed.`);
    },
  });
}

/** A field of the form, with the setting's description from the API's document. */
function settingField(name, value, { description }) {
  const options = ["wait", "exclude"].map((choice) => h("option", { selected: choice === value }, choice));
  const field = name === "returning_writer" ? h("select", { id: name, name }, options)
    : input(name, { required: false, value: settingText(name, value).replace("–", "") });
  return labelled(settingName(name), field, description);
}

/** Return the typed value of a setting, with the type of `stored`, or NaN if it is not valid. */
function settingValue(name, text, stored) {
  if (Array.isArray(stored)) return text ? text.split(/[\s,]+/) : [];
  if (text === "none" && /^max_(time|offset)/.test(name)) return null;
  if (name.endsWith("_ms")) return durationMs(text);
  if (name === "returning_writer") return text;
  const digits = text.replaceAll(",", "");
  return /^\d+$/.test(digits) ? narrowed(BigInt(digits)) : NaN;
}

/** Return the changed settings of a form. Throws if a value is not valid. */
function changedSettings(form, settings) {
  const changed = {};
  for (const name of settingsOf(settings)) {
    const value = settingValue(name, form.elements[name].value.trim(), settings[name]);
    if (Number.isNaN(value)) {
      const valid = name.endsWith("_ms") ? "a duration, for example 90m, 1h 30m or 500ms" : "a whole number";
      throw new Problem(422, { detail: `${settingName(name)}: enter ${valid}.` });
    }
    if (written(value) !== written(settings[name])) changed[name] = value;
  }
  return changed;
}

/** Return a text about the marks that a shorter retention would drop, or "". */
async function droppedMarksText(changed) {
  if (!("mark_retention_ms" in changed)) return "";
  const { dropped } = await change("PUT", [], null, changed, { dry_run: true });
  return marksOf(Object.fromEntries(Object.entries(dropped).filter(([, count]) => count)));
}

export async function askForSettings() {
  const [settings, document] = await Promise.all([get([]), call("GET", "openapi.json")]);
  const described = document.components.schemas.StreamChanges.properties;
  ask({
    title: `Settings of ${state.name}`, verb: "Save", isHarmful: false,
    fields: settingsOf(settings).map((name) => settingField(name, settings[name], described[name])),
    dryRun: async (form) => {
      const changed = changedSettings(form, settings);
      const lines = Object.entries(changed).map(([name, value]) =>
        [h("strong", settingName(name)), ` from ${settingText(name, settings[name])} to ${settingText(name, value)}.`]);
      const timeout = changed.writer_timeout_ms;
      const explanations = timeout ? await explained({ writer_timeout_ms: timeout }) : [];
      const would = wouldText(explanations);
      const dropped = await droppedMarksText(changed);
      if (dropped) would.push(`${dropped} would be dropped, for good.`);
      return lines.length ? [...lines, ...would] : ["Nothing has changed yet."];
    },
    act: async (form, comment) => {
      const changed = changedSettings(form, settings);
      const before = Object.fromEntries(Object.keys(changed).map((name) => [name, settings[name]]));
      const isForGood = "domains" in changed || await droppedMarksText(changed);
      await change("PUT", [], comment, changed);
      say("The settings are saved.", !isForGood && (() => change("PUT", [], "undone", before)));
    },
  });
}
