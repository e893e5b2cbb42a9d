import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { test, type TestContext } from "node:test";

import { FencedError, RefusedError, Writer } from "./writer.ts";

type Note = Record<string, any>;

const ACCEPTED = { refused: 0, results: [{ status: "accepted", lower: null }] };
const LOST = "lost";
const BUSY = "busy";

const refused = (status: string, last: unknown) => ({
  code: "notes_refused",
  refused: 1,
  results: [{ status, last }],
});

/** Starts a controller that gives these answers, and the last one forever. Returns its notes. */
async function startController(context: TestContext, ...answers: (object | string)[]) {
  const notes: Note[] = [];
  const server = createServer(async (request: IncomingMessage, response) => {
    const body = (await json(request)) as { notes: Note[] };
    notes.push(...body.notes);
    const next = answers.length > 1 ? answers.shift() : answers[0];
    if (next === LOST) return response.destroy();
    if (next === BUSY) return response.writeHead(429, { "Retry-After": "1" }).end("{}");
    return response.writeHead(next === ACCEPTED ? 200 : 422).end(JSON.stringify(next));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  context.after(() => (server.closeAllConnections(), server.close()));
  return { notes, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

async function join(context: TestContext, ...answers: (object | string)[]) {
  const { notes, url } = await startController(context, ACCEPTED, ...answers);
  return { notes, writer: await Writer.join({ url, stream: "receipts", writer: "till-1" }) };
}

test("a join takes over the name, and has no position", async (context) => {
  const { notes } = await join(context);

  const { takes_over, position, state, session } = notes[0]!;
  assert.deepEqual([takes_over, position, state, typeof session], [true, {}, "live", "string"]);
});

test("a note has the whole position", async (context) => {
  const { notes, writer } = await join(context, ACCEPTED);

  await writer.note(1, { 0: 3 });
  await writer.note(new Date(2), { 1: 5 });

  assert.deepEqual(notes[2]!["position"], { 0: 3, 1: 5 });
  assert.equal(notes[2]!["time"], 2);
  assert(notes[2]!["sequence"] > notes[1]!["sequence"]);
});

test("a lost answer is asked for again, after Retry-After", async (context) => {
  const { notes, writer } = await join(context, LOST, BUSY, ACCEPTED);
  const begun = performance.now();

  await writer.note(1, { 0: 1 });

  assert.equal(new Set(notes.slice(1).map((note) => note["sequence"])).size, 1);
  assert.equal(notes.length, 4);
  assert(performance.now() - begun >= 1000);
});

test("calls that wait are sent together", async (context) => {
  const { notes, writer } = await join(context, ACCEPTED);

  await Promise.all([1, 2, 3].map((time) => writer.note(time, { 0: time })));

  assert.deepEqual(notes.slice(1).map((note) => note["time"]), [1, 3]);
});

test("a fenced writer sends nothing more", async (context) => {
  const fenced = refused("fenced", { session: "other" });
  const { notes, writer } = await join(context, refused("superseded", 9), fenced);

  await assert.rejects(writer.note(1), FencedError);
  await assert.rejects(writer.heartbeat(), FencedError);

  assert.equal(notes.length, 3);
});

test("a refusal has its code", async (context) => {
  const { writer } = await join(context, refused("too_far_ahead", 7), ACCEPTED);

  await assert.rejects(writer.note(9), { name: RefusedError.name, code: "too_far_ahead" });
  await writer.note(7);
  await assert.rejects(writer.note(6), { code: "invalid_time" });
});

test("a contact that an older controller refuses is left out", async (context) => {
  const older = { code: "invalid_request", detail: "body.notes.0.contact: unknown field" };
  const answers = [ACCEPTED, older, ACCEPTED, ACCEPTED, LOST, older, ACCEPTED];
  const { notes, url } = await startController(context, ...answers);
  const said: string[] = [];
  const onRetry = (reason: string) => void said.push(reason);

  const names = { stream: "receipts", writer: "till-1" };
  const writer = await Writer.join({ url, ...names, contact: "shop team", onRetry });
  for (const time of [1, 2, 3]) await writer.note(time, { 0: time });

  const sent = "shop team";
  const expected = [sent, sent, undefined, undefined, undefined, sent, undefined];
  assert.deepEqual(notes.map((note) => note["contact"]), expected);
  assert.match(said[0]!, /upgrade the controller/);
  assert.equal(said.length, 2);
});

test("an invalid contact is refused", async (context) => {
  const refusal = { code: "invalid_request", detail: "body.notes.0.contact is too long" };
  const { url } = await startController(context, refusal);

  const joined = Writer.join({ url, stream: "receipts", writer: "till-1", contact: "too long" });

  await assert.rejects(joined, { code: "invalid_request" });
});

test("the next call sends the note of an aborted call", async (context) => {
  const { notes, writer } = await join(context, LOST, ACCEPTED);

  await assert.rejects(writer.note(4, {}, AbortSignal.timeout(50)), { name: "TimeoutError" });
  await writer.flush();

  assert.deepEqual(notes.slice(1).map((note) => note["time"]), [4, 4]);
});
