// Makes elements from values and never from markup, so a name cannot become markup. `show` patches
// the elements into the page, which keeps its focus, its selection and typed text.

/** Make an element for "tag.class.class" with attributes and children. Lists are flattened, null is skipped. */
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

/** Replace the children of `old` by the children of `fresh`. Keep elements with the same data-key. */
function patch(old, fresh) {
  const keyed = new Map();
  for (const child of old.children) if (child.dataset.key) keyed.set(child.dataset.key, child);
  let next = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const key = wanted.dataset?.key;
    let present = keyed.get(key);
    if (!key) present = next?.dataset?.key ? null : next;
    if (present?.nodeName !== wanted.nodeName) {
      old.insertBefore(wanted, next);
      continue;
    }
    if (present === next) next = next.nextSibling;
    else old.insertBefore(present, next);
    if (present.nodeType === Node.TEXT_NODE) {
      if (present.data !== wanted.data) present.data = wanted.data;
    } else {
      patchAttributes(present, wanted);
      patch(present, wanted);
    }
  }
  while (next?.nextSibling) next.nextSibling.remove();
  next?.remove();
}

function patchAttributes(old, fresh) {
  for (const { name } of [...old.attributes]) {
    // a new element lacks the state of details and the position of a bar
    if (!fresh.hasAttribute(name) && name !== "open" && name !== "style") old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
}

/** Patch, keep the focus, and set the positions of bars, because the content policy forbids inline styles. */
export function show(old, fresh) {
  const focused = document.activeElement;
  patch(old, fresh);
  for (const bar of old.querySelectorAll("[data-left]")) {
    bar.style.left = `${bar.dataset.left}%`;
    if (bar.dataset.width) bar.style.width = `${bar.dataset.width}%`;
  }
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
}
