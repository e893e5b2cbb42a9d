// Terms, which show the glossary's sentence while they have the pointer or the focus. Escape hides it.

import { h } from "./elements.js";
import { GLOSSARY } from "./glossary.js";

const MARGIN_PX = 8;

const idOf = (word) => `definition-${word.replaceAll(" ", "-")}`;

/** A text whose meaning the glossary has under `word`, by default the text itself in lower case. */
export function term(text, word = text.toLowerCase()) {
  if (!Object.hasOwn(GLOSSARY, word)) throw new Error(`the glossary has no “${word}”`);
  return h("dfn", { tabindex: 0, "aria-describedby": idOf(word) }, text);
}

document.body.append(h("div", Object.entries(GLOSSARY).map(([word, sentence]) =>
  h("p.definition", { id: idOf(word), role: "tooltip", popover: "manual" }, h("strong", word), " ", sentence))));

let shownTerm = null;
const definitionOf = (shown) => document.getElementById(shown.getAttribute("aria-describedby"));

function showDefinition(chosenTerm) {
  if (chosenTerm === shownTerm) return;
  hideDefinition();
  shownTerm = chosenTerm;
  definitionOf(shownTerm).showPopover();
  placeDefinition();
}

function hideDefinition() {
  if (shownTerm) definitionOf(shownTerm).hidePopover();
  shownTerm = null;
}

/** Place the sentence below its term, or above it if there is no room. */
function placeDefinition() {
  if (!shownTerm) return;
  if (!shownTerm.isConnected) return hideDefinition();
  const definition = definitionOf(shownTerm);
  const { left, top, bottom } = shownTerm.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = definition;
  const hasRoomBelow = bottom + height + MARGIN_PX <= innerHeight;
  definition.style.left = `${Math.max(MARGIN_PX, Math.min(left, innerWidth - width - MARGIN_PX))}px`;
  definition.style.top = `${hasRoomBelow ? bottom : top - height}px`;
}

/** Show the term under the pointer. The pointer may move to the sentence, too. */
function showPointedTerm({ target }) {
  const pointedTerm = target.closest("dfn");
  if (pointedTerm) return showDefinition(pointedTerm);
  const isKept = target.closest(".definition") || shownTerm === document.activeElement;
  if (!isKept) hideDefinition();
}

function showFocusedTerm({ target }) {
  const focusedTerm = target.closest("dfn");
  if (focusedTerm) showDefinition(focusedTerm);
  else hideDefinition();
}

document.addEventListener("pointerover", showPointedTerm);
document.addEventListener("focusin", showFocusedTerm);
document.addEventListener("focusout", hideDefinition);
document.addEventListener("keydown", ({ key }) => key === "Escape" && hideDefinition());
document.addEventListener("answers", placeDefinition);
document.addEventListener("scroll", placeDefinition, { capture: true, passive: true });
