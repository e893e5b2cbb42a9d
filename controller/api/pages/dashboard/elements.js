// Elements are made of values and never of markup, so that no name can become markup. `show` patches
// them into the page, which keeps its focus, its selection and what was typed.

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
export const h = make.bind(null, "http://www.w3.org/1999/xhtml");
export const svg = make.bind(null, "http://www.w3.org/2000/svg");
export const $ = (selector, within = document) => within.querySelector(selector);

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
    // the fresh element has no attribute for whether details are open, nor for where a bar lies
    if (!fresh.hasAttribute(name) && name !== "open" && name !== "style") old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
}

/** Patch, keep the focus, and place the bars, which the content policy forbids markup to do. */
export function show(old, fresh) {
  const focused = document.activeElement;
  patch(old, fresh);
  for (const bar of old.querySelectorAll("[data-left]")) {
    bar.style.left = `${bar.dataset.left}%`;
    if (bar.dataset.width) bar.style.width = `${bar.dataset.width}%`;
  }
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
}
