/**
 * A writer program for noted-time's conformance runner:
 *
 *     ./run conformance -- node integrations/typescript/dist/conformance.js
 *
 * It reads a command a line from standard input, and answers each with one JSON object.
 */

import { createInterface } from "node:readline";

import { FencedError, RefusedError, Writer, type Answer } from "./writer.ts";

const { env } = process;
const giveUpMs = Number(env["NOTED_TIME_GIVE_UP_S"] ?? 30) * 1000;
let ends = [0, 0]; // of the segments of the program's log
let writer: Writer | undefined;

async function perform(command: string, value: number, signal: AbortSignal): Promise<Answer> {
  if (!writer || command === "join") {
    const url = env["NOTED_TIME_URL"] ?? "";
    const stream = env["NOTED_TIME_STREAM"] ?? "";
    const name = env["NOTED_TIME_WRITER"] ?? "";
    writer = await Writer.join({ url, stream, writer: name }, signal);
  }
  const position = { ...ends };
  switch (command) {
    case "note":
      return writer.note(value, position, signal);
    case "idle":
    case "leave":
      return writer.idle(position, signal);
    case "finish":
      return writer.finish(position, signal);
    case "close":
      return writer.flush(signal);
    default:
      return writer.heartbeat(signal);
  }
}

async function answer(command: string, values: number[]): Promise<object> {
  if (command === "write" || command === "ends") {
    const offsetsBefore = command === "ends" ? [] : ends;
    ends = values.map((value, segment) => value + (offsetsBefore[segment] ?? 0));
    return { answer: "ok", position: { ...ends } };
  }
  const [value = 0] = values;
  const signal = AbortSignal.timeout(giveUpMs);
  try {
    const { lower, excluded } = await perform(command, value, signal);
    if (excluded) return { answer: "excluded" };
    const isLate = command === "note" && lower !== null && value <= lower;
    return { answer: "accepted", ...(isLate && { late: true }) };
  } catch (error) {
    if (error instanceof FencedError) return { answer: "fenced" };
    if (error instanceof RefusedError) return { answer: "refused", code: error.code };
    if (signal.aborted) return { answer: "gave up" };
    throw error;
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const [command = "", ...values] = line.trim().split(" ");
  process.stdout.write(`${JSON.stringify(await answer(command, values.map(Number)))}\n`);
  if (command === "close") process.exit(0);
}
process.exit(1); // a crash: nothing more is sent
