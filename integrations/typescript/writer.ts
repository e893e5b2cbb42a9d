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

type Final = { results: Result[] } | { refused: RefusedError };
type Outcome = Final | { unanswered: string; afterMs: number };

const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 5_000;
const LONGEST_RETRY_AFTER_MS = 300_000;
const REQUEST_TIMEOUT_MS = 10_000;
const MOST_CORRECTIONS = 3;

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
  readonly #urls: string[];
  readonly #process: { writer: string; session: string; label: string };
  #takesOver = true; // until a note is accepted
  #position: Record<number, number> = {};
  #time: number | undefined; // the last one noted
  #state: State = "live";
  #unsent = false; // the time has no answer
  #changed = false; // the state has no answer
  #joins = false; // again, because the controller does not know the writer
  #omitsContact = false; // an older controller refuses it
  #saidContact = false;
  #calls = 0;
  #answered = 0; // the calls that have an answer
  #sequence = 0;
  #numbered = 0; // the calls in the request with the last sequence
  #sending: Promise<void> | undefined;
  #answer: Answer = { lower: null };
  #error: Error | undefined; // of the last answer

  private constructor(options: WriterOptions) {
    this.#options = options;
    const path = `v1/streams/${encodeURIComponent(options.stream)}/notes`;
    this.#urls = options.url.split(",").map((each) => new URL(path, `${each.trim()}/`).href);
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
    return this.#answered === this.#calls ? this.#answer : this.#wait(this.#calls, signal);
  }

  /** Records a note. A newer one replaces it, because that has the newer state and position. */
  #call(state: State, time: number | undefined, position: Position, signal?: AbortSignal) {
    this.#check(time, position);
    this.#reach(position);
    this.#state = state;
    this.#changed = time === undefined;
    if (time !== undefined) {
      this.#time = time;
      this.#unsent = true;
    }
    return this.#wait(++this.#calls, signal);
  }

  #check(time: number | undefined, position: Position): void {
    if (this.#error instanceof FencedError) throw this.#error;
    for (const each of [time ?? 0, ...Object.values(position)]) {
      if (!Number.isSafeInteger(each)) throw new RangeError(`${each} is not a safe integer`);
    }
    if (time !== undefined && this.#time !== undefined && time < this.#time) {
      throw new RefusedError("invalid_time", `${time} is below ${this.#time}`);
    }
    for (const [segment, offset] of Object.entries(position)) {
      const last = this.#position[Number(segment)] ?? 0;
      if (offset >= last) continue;
      throw new RefusedError("invalid_position", `${offset} of ${segment} is below ${last}`);
    }
  }

  #reach(position: Position): void {
    for (const [segment, offset] of Object.entries(position)) {
      const last = this.#position[Number(segment)] ?? 0;
      this.#position[Number(segment)] = Math.max(last, offset);
    }
  }

  /** Sends until the call has an answer, or waits for the call that sends. */
  async #wait(ticket: number, signal?: AbortSignal): Promise<Answer> {
    while (this.#answered < ticket && !(this.#error instanceof FencedError)) {
      signal?.throwIfAborted();
      this.#sending ??= this.#send(signal).finally(() => (this.#sending = undefined));
      await beforeAbort(this.#sending, signal);
    }
    if (this.#error) throw this.#error;
    return this.#answer;
  }

  /** Repeats a request until it has an answer. Returns early if the signal is aborted. */
  async #send(signal?: AbortSignal): Promise<void> {
    for (let failures = 0, corrections = 0; !signal?.aborted; ) {
      const calls = this.#calls;
      const notes = this.#collect();
      const outcome = await this.#post(notes, signal);
      if (this.#refusesContact(outcome)) continue;
      if ("unanswered" in outcome) {
        this.#omitsContact = false; // the next controller may be newer
        if (!signal?.aborted) this.#options.onRetry?.(outcome.unanswered);
        this.#urls.push(...this.#urls.splice(0, 1));
        if (++failures % this.#urls.length !== 0) continue;
        const ms = pauseMs(failures / this.#urls.length) + outcome.afterMs;
        await sleep(ms, undefined, signal && { signal }).catch(() => undefined);
      } else if (!this.#corrects(outcome) || ++corrections > MOST_CORRECTIONS) {
        return this.#settle(calls);
      }
    }
  }

  /**
   * Returns the notes of a request. Its sequence follows the clock in µs, so that a restarted
   * process has larger ones. A repeated request has the same. Each note has the whole position, so
   * it covers the notes that it replaces.
   */
  #collect(): object[] {
    if (this.#numbered !== this.#calls) {
      this.#numbered = this.#calls;
      this.#sequence = Math.max(this.#sequence + 1, Date.now() * 1000);
    }
    const { domain, log, timeoutMs: timeout_ms } = this.#options;
    const contact = this.#omitsContact ? undefined : this.#options.contact;
    // each time, because the stream may be made again
    const terms = { domains: domain && [domain], log, timeout_ms, contact };
    const build = (state: State, time?: number) => ({
      ...this.#process,
      sequence: this.#sequence,
      takes_over: this.#takesOver,
      state,
      time,
      domain,
      position: this.#position,
      ...(state === "live" && terms),
    });
    return [
      ...(this.#joins ? [build("live")] : []),
      ...(this.#unsent ? [build("live", this.#time)] : []),
      ...(this.#changed ? [build(this.#state)] : []),
    ];
  }

  async #post(notes: object[], signal?: AbortSignal): Promise<Outcome> {
    const token = this.#options.token ?? process.env["NOTED_TIME_TOKEN"];
    const limit = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
    try {
      const response = await fetch(this.#urls[0] ?? "", {
        method: "POST",
        headers: {
          "Content-Type": "application/json",
          ...(token && { Authorization: `Bearer ${token}` }),
        },
        body: JSON.stringify({ notes }),
        redirect: "manual",
        signal: signal ? AbortSignal.any([signal, limit]) : limit,
      });
      const { status, headers } = response;
      if (status >= 500 || [408, 425, 429].includes(status)) {
        await response.body?.cancel();
        const ms = Number(headers.get("Retry-After") ?? 0) * 1000 || 0;
        return { unanswered: `status ${status}`, afterMs: Math.min(ms, LONGEST_RETRY_AFTER_MS) };
      }
      const { code, detail, results } = (await response.json()) as Record<string, unknown>;
      if (Array.isArray(results) && results.length === notes.length) return { results };
      if (typeof code === "string" && code !== "conflict") {
        return { refused: new RefusedError(code, String(detail)) };
      }
      return { unanswered: `no controller answers: status ${status}`, afterMs: 0 };
    } catch (error) {
      const { message, cause } = error as Error; // no connection, no answer in time, or no JSON
      return { unanswered: `${message}${cause ? `: ${cause}` : ""}`, afterMs: 0 };
    }
  }

  /**
   * Returns whether an older controller refuses the contact. The notes are then sent without it,
   * and `onRetry` learns this once.
   */
  #refusesContact(outcome: Outcome): boolean {
    const mayRefuse = this.#options.contact !== undefined && !this.#omitsContact;
    if (!mayRefuse || !("refused" in outcome)) return false;
    const { message } = outcome.refused;
    if (!message.includes("unknown field") || !message.includes("contact")) return false;
    this.#omitsContact = true;
    if (!this.#saidContact) {
      this.#saidContact = true;
      this.#options.onRetry?.(
        `the controller refuses the contact, so notes are sent without it: upgrade the controller (${message})`,
      );
    }
    return true;
  }

  /** Records an answer. Returns whether to send a refused note again in another form. */
  #corrects(outcome: Final): boolean {
    let corrects = false;
    this.#numbered = 0;
    this.#joins = false;
    this.#error = "refused" in outcome ? outcome.refused : undefined;
    for (const result of "results" in outcome ? outcome.results : []) {
      if (result.status === "accepted") {
        const { lower, excluded, position } = result;
        this.#takesOver = false;
        this.#reach(position ?? {});
        this.#answer = { lower, ...(excluded && { excluded }) };
        continue;
      }
      const last = JSON.stringify(result.last);
      const isFenced = result.status === "fenced";
      this.#error = isFenced ? new FencedError(last) : new RefusedError(result.status, last);
      if (result.status === "superseded") {
        // by an older process with a faster clock, or by a younger one, which fences
        this.#sequence = Number(result.last);
        corrects = true;
      } else if (result.status === "unknown_writer") {
        corrects = this.#joins = true; // the stream was created again
      }
    }
    return corrects;
  }

  #settle(calls: number): void {
    this.#answered = calls;
    if (this.#calls !== calls) return;
    this.#unsent = this.#changed = false;
    if (this.#error) this.#time = undefined; // the controller may not have it
  }
}

/** Between half of a step and the step, which doubles. */
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
