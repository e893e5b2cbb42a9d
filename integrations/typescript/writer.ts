/**
 * Notes the time of one writer of a partitioned log.
 *
 * A note says: all my events before this time lie below this position. A noted-time controller
 * aggregates the notes of all writers, and readers get a watermark that loses no event.
 *
 * Follow this order, or readers may lose events:
 *
 * 1. {@link Writer.join} joins the stream. From then on, the watermark waits for the writer.
 * 2. Look up the ends of the segments, write events, and make them durable.
 * 3. {@link Writer.note} notes a time, and the offsets after the last durable event.
 * 4. {@link Writer.idle} or {@link Writer.finish} ends the wait. If the program ends without them,
 *    the watermark waits until the writer's timeout.
 *
 * Each promise is fulfilled once its note is durable, and rejected once it is refused. The request
 * is repeated until then. If the signal of a call is aborted first, the promise is rejected with
 * its reason, and the next call includes the note. Calls that wait for an earlier one are sent
 * together, as one note.
 *
 * @packageDocumentation
 */

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * Segments, such as Kafka partitions, and their exclusive offsets: everything below an offset is
 * written. A segment that a call does not name keeps its offset.
 */
export type Position = Readonly<Record<number, number>>;

/** Options of {@link Writer.join}. */
export interface WriterOptions {
  /** The URL of the controller, or of several of one database, separated by commas. */
  url: string;
  stream: string;
  /** The name of the writer. Only one process at a time can note under it. */
  writer: string;
  /** By default the environment variable `NOTED_TIME_TOKEN`. */
  token?: string;
  /** How long the watermark waits for a silent writer. By default it is unchanged. */
  timeoutMs?: number;
  /** The time domain of the events. By default all domains of the stream. */
  domain?: string;
  /** The id of the log, such as the id of the Kafka topic. */
  log?: string;
  /** Whom people ask about the writer: a line of up to 200 characters. An empty text clears it. */
  contact?: string;
  /** Is called with why a request is repeated, for example to log it. */
  onRetry?: (reason: string) => void;
}

/** The stream after a call. Times are in Unix ms. */
export interface Answer {
  /** The watermark: earlier events are late. It is null before the first mark. */
  lower: number | null;
  /**
   * Present if the watermark advances without the writer, so that events below it are late. It ends
   * when the writer notes a time above the watermark.
   */
  excluded?: { reason: "timed_out" | "removed" | "returned_below"; excluded_at: number };
}

/** A final refusal: the same note would be refused again. */
export class RefusedError extends Error {
  override name = "RefusedError";
  /** The API's code of the problem, or its status of the note. */
  readonly code: string;

  constructor(code: string, detail: string) {
    super(`refused as ${code}: ${detail}`);
    this.code = code;
  }
}

/**
 * Another process has taken over the writer's name. It is final: every later call of this writer
 * fails with it.
 */
export class FencedError extends RefusedError {
  override name = "FencedError";

  constructor(holder: string) {
    super("fenced", `another process has the writer's name: ${holder}. Stop this process`);
  }
}

type State = "live" | "idle" | "finished";

interface Result extends Answer {
  status: string;
  position?: Position;
  last?: unknown;
}

/** An answer of the controller: the results of the notes, or a refusal of the whole request. */
type Final = { results: Result[] } | { refused: RefusedError };

/** Why the request is to be repeated, and how long the controller asks to wait. */
interface Unanswered {
  unanswered: string;
  afterMs: number;
}

type Outcome = Final | Unanswered;

const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 5_000;
const LONGEST_RETRY_AFTER_MS = 300_000;
const REQUEST_TIMEOUT_MS = 10_000;
const MOST_CORRECTIONS = 3;
const BUSY_STATUSES = [408, 425, 429];

/**
 * One writer of one stream.
 *
 * @example
 * ```ts
 * const writer = await Writer.join({ url, stream: "receipts", writer: "till-4" });
 * await log.append(event); // durable
 * await writer.note(new Date("2013-01-01T09:59Z"), { 3: 1 });
 * await writer.finish();
 * ```
 */
export class Writer {
  readonly #options: WriterOptions;
  readonly #urls: string[]; // the next request goes to the first
  readonly #process: { writer: string; session: string; label: string };
  #takesOver = true; // until a note is accepted
  #position: Record<number, number> = {};
  #lastTime: number | undefined; // the last one noted
  #state: State = "live";
  #hasUnsentTime = false; // the time has no answer
  #hasUnsentState = false; // the state has no answer
  #mustJoin = false; // again, because the controller does not know the writer
  #omitsContact = false; // an older controller refuses it
  #hasReportedContact = false;
  #lastTicket = 0; // the number of the last call
  #answeredTicket = 0; // the last call that has an answer
  #numberedTicket = 0; // the last call in the request with the last sequence
  #sequence = 0;
  #sending: Promise<void> | undefined;
  #answer: Answer = { lower: null };
  #error: Error | undefined; // of the last answer

  private constructor(options: WriterOptions) {
    this.#options = options;
    const path = `v1/streams/${encodeURIComponent(options.stream)}/notes`;
    this.#urls = options.url.split(",").map((url) => new URL(path, `${url.trim()}/`).href);
    const label = `${hostname().slice(0, 100)}:${process.pid}`;
    this.#process = { writer: options.writer, session: randomUUID(), label };
  }

  /**
   * Joins the stream. An earlier process of the same name is fenced.
   *
   * @throws {@link RefusedError}, TypeError for an invalid URL, or the signal's reason.
   */
  static async join(options: WriterOptions, signal?: AbortSignal): Promise<Writer> {
    const writer = new Writer(options);
    await writer.heartbeat(signal);
    return writer;
  }

  /** The writer's offsets, with those of an earlier process of its name. */
  get position(): Position {
    return { ...this.#position };
  }

  /**
   * Notes that all events before the time (a date, or Unix ms) lie below the position. Call it once
   * they are durable.
   *
   * @throws {@link RefusedError}, also if the time or an offset goes back, RangeError for a number
   * that is not a safe integer, or the signal's reason.
   */
  async note(time: Date | number, position: Position = {}, signal?: AbortSignal): Promise<Answer> {
    return this.#call("live", Number(time), position, signal);
  }

  /** Says that the writer lives, without a new time. The watermark waits for it. */
  async heartbeat(signal?: AbortSignal): Promise<Answer> {
    return this.#call("live", undefined, {}, signal);
  }

  /**
   * Says that the writer does not write for now: the watermark does not wait until the next
   * {@link note} or {@link heartbeat}. Await one of them before you write again.
   */
  async idle(position: Position = {}, signal?: AbortSignal): Promise<Answer> {
    return this.#call("idle", undefined, position, signal);
  }

  /** Says that the writer writes nothing more. */
  async finish(position: Position = {}, signal?: AbortSignal): Promise<Answer> {
    return this.#call("finished", undefined, position, signal);
  }

  /** Waits until all calls have an answer, and sends the notes of aborted calls. */
  async flush(signal?: AbortSignal): Promise<Answer> {
    if (this.#answeredTicket === this.#lastTicket) return this.#answer;
    return this.#wait(this.#lastTicket, signal);
  }

  /** Records a note. A newer one replaces it, because that has the newer state and position. */
  #call(state: State, time: number | undefined, position: Position, signal?: AbortSignal) {
    this.#check(time, position);
    this.#reach(position);
    this.#state = state;
    this.#hasUnsentState = time === undefined; // a note with a time has the state, too
    if (time !== undefined) {
      this.#lastTime = time;
      this.#hasUnsentTime = true;
    }
    this.#lastTicket += 1;
    return this.#wait(this.#lastTicket, signal);
  }

  /** Throws if the writer is fenced, or if the time or an offset goes back. */
  #check(time: number | undefined, position: Position): void {
    if (this.#error instanceof FencedError) throw this.#error;
    const numbers = time === undefined ? [] : [time];
    numbers.push(...Object.values(position));
    for (const number of numbers) {
      if (!Number.isSafeInteger(number)) throw new RangeError(`${number} is not a safe integer`);
    }
    if (time !== undefined && this.#lastTime !== undefined && time < this.#lastTime) {
      throw new RefusedError("invalid_time", `${time} is below ${this.#lastTime}`);
    }
    for (const [segment, offset] of Object.entries(position)) {
      const lastOffset = this.#position[Number(segment)] ?? 0;
      if (offset < lastOffset) {
        const detail = `${offset} of ${segment} is below ${lastOffset}`;
        throw new RefusedError("invalid_position", detail);
      }
    }
  }

  /** Raises the offsets of the writer to those of a position. */
  #reach(position: Position): void {
    for (const [segment, offset] of Object.entries(position)) {
      const lastOffset = this.#position[Number(segment)] ?? 0;
      this.#position[Number(segment)] = Math.max(lastOffset, offset);
    }
  }

  /** Sends until the call has an answer, or waits for the call that sends. */
  async #wait(ticket: number, signal?: AbortSignal): Promise<Answer> {
    while (this.#answeredTicket < ticket && !(this.#error instanceof FencedError)) {
      signal?.throwIfAborted();
      this.#sending ??= this.#send(signal).finally(() => (this.#sending = undefined));
      await beforeAbort(this.#sending, signal);
    }
    if (this.#error) throw this.#error;
    return this.#answer;
  }

  /** Repeats a request until it has an answer. Returns early if the signal is aborted. */
  async #send(signal?: AbortSignal): Promise<void> {
    let failures = 0;
    let corrections = 0;
    while (!signal?.aborted) {
      const ticket = this.#lastTicket;
      const notes = this.#collect();
      const outcome = await this.#post(notes, signal);
      if (this.#refusesContact(outcome)) continue;
      if ("unanswered" in outcome) {
        failures += 1;
        await this.#turnToNext(outcome, failures, signal);
        continue;
      }
      const canBeCorrected = this.#record(outcome);
      if (!canBeCorrected || corrections === MOST_CORRECTIONS) {
        this.#settle(ticket);
        return;
      }
      corrections += 1;
    }
  }

  /** Turns to the next controller, and pauses each time that all have failed. */
  async #turnToNext(outcome: Unanswered, failures: number, signal?: AbortSignal): Promise<void> {
    this.#omitsContact = false; // the next controller may be newer
    if (!signal?.aborted) this.#options.onRetry?.(outcome.unanswered);
    this.#urls.push(...this.#urls.splice(0, 1)); // the first becomes the last
    if (failures % this.#urls.length !== 0) return;
    const ms = pauseMs(failures / this.#urls.length) + outcome.afterMs;
    await sleep(ms, undefined, signal && { signal }).catch(() => undefined); // or until the abort
  }

  /**
   * Returns the notes of a request. Its sequence follows the clock in µs, so that a restarted
   * process has larger ones. A repeated request has the same. Each note has the whole position, so
   * it covers the notes that it replaces.
   */
  #collect(): object[] {
    if (this.#numberedTicket !== this.#lastTicket) {
      this.#numberedTicket = this.#lastTicket;
      this.#sequence = Math.max(this.#sequence + 1, Date.now() * 1000);
    }
    const notes: object[] = [];
    if (this.#mustJoin) notes.push(this.#build("live"));
    if (this.#hasUnsentTime) notes.push(this.#build("live", this.#lastTime));
    if (this.#hasUnsentState) notes.push(this.#build(this.#state));
    return notes;
  }

  #build(state: State, time?: number): object {
    const { domain, log, timeoutMs, contact } = this.#options;
    const note = {
      ...this.#process,
      sequence: this.#sequence,
      takes_over: this.#takesOver,
      state,
      time,
      domain,
      position: this.#position,
    };
    if (state !== "live") return note;
    // each time, because the stream may be deleted and created again
    return {
      ...note,
      domains: domain && [domain],
      log,
      timeout_ms: timeoutMs,
      contact: this.#omitsContact ? undefined : contact,
    };
  }

  /** Sends a request once. */
  async #post(notes: object[], signal?: AbortSignal): Promise<Outcome> {
    const token = this.#options.token ?? process.env["NOTED_TIME_TOKEN"];
    const requestHeaders: Record<string, string> = { "Content-Type": "application/json" };
    if (token) requestHeaders["Authorization"] = `Bearer ${token}`;
    const timeout = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
    try {
      const response = await fetch(this.#urls[0] ?? "", {
        method: "POST",
        headers: requestHeaders,
        body: JSON.stringify({ notes }),
        redirect: "manual",
        signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      });
      const { status, headers } = response;
      if (status >= 500 || BUSY_STATUSES.includes(status)) {
        await response.body?.cancel();
        return { unanswered: `status ${status}`, afterMs: readRetryAfterMs(headers) };
      }
      const { code, detail, results } = (await response.json()) as Record<string, unknown>;
      if (Array.isArray(results) && results.length === notes.length) return { results };
      if (typeof code === "string" && code !== "conflict") {
        return { refused: new RefusedError(code, String(detail)) };
      }
      return { unanswered: `no controller answers: status ${status}`, afterMs: 0 };
    } catch (error) {
      const { message, cause } = error as Error; // no connection, no answer in time, or no JSON
      return { unanswered: cause ? `${message}: ${cause}` : message, afterMs: 0 };
    }
  }

  /**
   * Returns whether an older controller refuses the contact. The notes are then sent without it,
   * and `onRetry` learns this once.
   */
  #refusesContact(outcome: Outcome): boolean {
    const hasSentContact = this.#options.contact !== undefined && !this.#omitsContact;
    if (!hasSentContact || !("refused" in outcome)) return false;
    const { message } = outcome.refused;
    if (!message.includes("unknown field") || !message.includes("contact")) return false;
    this.#omitsContact = true;
    if (!this.#hasReportedContact) {
      this.#hasReportedContact = true;
      this.#options.onRetry?.(
        `the controller refuses the contact, so notes are sent without it: upgrade the controller (${message})`,
      );
    }
    return true;
  }

  /** Records an answer. Returns whether to send a refused note again in another form. */
  #record(outcome: Final): boolean {
    this.#numberedTicket = 0;
    this.#mustJoin = false;
    this.#error = undefined;
    if ("refused" in outcome) {
      this.#error = outcome.refused;
      return false;
    }
    let canBeCorrected = false;
    for (const result of outcome.results) {
      if (result.status === "accepted") {
        this.#accept(result);
      } else if (this.#correct(result)) {
        canBeCorrected = true;
      }
    }
    return canBeCorrected;
  }

  #accept({ lower, excluded, position }: Result): void {
    this.#takesOver = false;
    this.#reach(position ?? {});
    this.#answer = excluded ? { lower, excluded } : { lower };
  }

  /** Prepares to send a refused note again. Returns whether it may then be accepted. */
  #correct(result: Result): boolean {
    const last = JSON.stringify(result.last);
    switch (result.status) {
      case "fenced":
        this.#error = new FencedError(last);
        return false;
      case "superseded":
        // by an older process with a faster clock, or by a younger one, which fences
        this.#error = new RefusedError(result.status, last);
        this.#sequence = Number(result.last);
        return true;
      case "unknown_writer":
        this.#error = new RefusedError(result.status, last);
        this.#mustJoin = true; // the stream was created again
        return true;
      default:
        this.#error = new RefusedError(result.status, last);
        return false;
    }
  }

  /** Answers the calls up to a ticket. A later call leaves its note to be sent. */
  #settle(ticket: number): void {
    this.#answeredTicket = ticket;
    if (this.#lastTicket !== ticket) return;
    this.#hasUnsentTime = false;
    this.#hasUnsentState = false;
    if (this.#error) this.#lastTime = undefined; // the controller may not have it
  }
}

/** Returns the wait that a controller asks for, 0 if it asks for none or until a date. */
function readRetryAfterMs(headers: Headers): number {
  const seconds = Number(headers.get("Retry-After") ?? 0);
  if (Number.isNaN(seconds)) return 0;
  return Math.min(seconds * 1000, LONGEST_RETRY_AFTER_MS);
}

/** Returns a pause between half of a step and the step, which doubles with each failure. */
function pauseMs(failures: number): number {
  const step = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (failures - 1));
  return step * (0.5 + 0.5 * Math.random());
}

/** Waits for a promise. Rejects with the signal's reason if it is aborted first. */
function beforeAbort(promise: Promise<void>, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal?.reason);
    signal?.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal?.removeEventListener("abort", abort));
  });
}
