// Calls of the controller's API, with the token that the user entered in this tab.

import { h } from "./elements.js";
import { input, labelled, open } from "./parts.js";
import { parsed, written } from "./values.js";

const ANSWER_MS = 8000;
const TOKEN = "noted-time-token";
const FOREIGN = "The server at this address is not a noted-time controller.";

export const base = new URL(".", location.href.split("#")[0]);

/** The command that runs noted-time on the controller's machine. */
export const program = document.documentElement.dataset.program;

/** An unsuccessful answer. Its status is null if the server is not a controller. */
export class Problem extends Error {
  constructor(status, { detail, code }) {
    super(detail ?? `HTTP ${status}`);
    Object.assign(this, { status, code });
  }
}

/** The rights of the token, null until they are loaded. */
export let access = null;
export const loadAccess = async () => { access ??= await call("GET", "v1/access"); };
export function forgetToken() {
  sessionStorage.removeItem(TOKEN);
  access = null;
}

let askingForToken = null;

/** Return the answer's body. If a token is needed, ask the user for one and call again. */
export async function call(method, path, { query = {}, body, within = ANSWER_MS } = {}) {
  const url = new URL(path, base);
  for (const [name, value] of Object.entries(query)) {
    for (const item of [value].flat()) if (item != null && item !== "") url.searchParams.append(name, item);
  }
  const token = sessionStorage.getItem(TOKEN);
  const headers = { Accept: "application/json", ...(token && { Authorization: `Bearer ${token}` }) };
  if (body) headers["Content-Type"] = "application/json";
  const signal = AbortSignal.timeout(within);
  const answer = await fetch(url, { method, headers, signal, body: body && written(body) });
  const content = await answer.text().then(parsed).catch(() => null);
  if (answer.ok && content) return content;
  if (!content && answer.status < 400) throw new Problem(null, { detail: FOREIGN });
  if (answer.status !== 401) throw new Problem(answer.status, content ?? {});
  if (token === sessionStorage.getItem(TOKEN)) await (askingForToken ??= askForToken(token != null));
  return call(method, path, { query, body, within });
}

/** Ask for a token. Rejects if the user cancels. */
function askForToken(isRefused) {
  access = null;
  return new Promise((resolve, reject) => {
    const field = input("secret", { type: "password" });
    const why = isRefused
      ? "The token is unknown, expired or revoked."
      : ["This controller asks for a token. An operator creates one with ", h("code", `${program} token create`), "."];
    const parts = [h("p", why), labelled("Token", field, "Kept for this tab alone.")];
    const dialog = open("Token needed", parts, h("button.main", "Use token"), () => {
      sessionStorage.setItem(TOKEN, field.value.trim());
      resolve();
    });
    dialog.addEventListener("close", () => {
      askingForToken = null;
      reject(new Problem(401, { detail: "a token is needed" }));
    });
  });
}
