// The sentences of docs/reference/glossary.md, written by docs/glossary.py. Change them there.

export const GLOSSARY = {
  "segment": `one ordered sequence of a stream, such as a Kafka partition, with an integer id`,
  "offset": `an int64 ≥ 0, exclusive: everything below it is written, or read`,
  "position": `the offset of a writer or reader in each segment; a missing segment means 0`,
  "log": `the data that a stream's offsets belong to, such as a Kafka topic; notes contain its id`,
  "cut": `an offset for each segment of the whole stream`,
  "stream cut": `an offset for each segment of the whole stream`,
  "reaches": `A cut reaches another if it is equal or larger in every segment. Two cuts cross if each is larger in
    some segment.`,
  "crosses": `A cut reaches another if it is equal or larger in every segment. Two cuts cross if each is larger in
    some segment.`,
  "time": `an int64 of the application's own clock, Unix ms by convention`,
  "domain": `one of a stream's times, such as order_time and ship_time`,
  "note": `a writer's statement: all my events with time below T lie below my position. Its state is live, idle (the
    writer may return) or finished`,
  "mark": `the aggregate of the notes: lower, upper, cut, seq. All events with time below lower lie below the cut`,
  "lower": `the lower of the last mark: everything with an earlier time is written`,
  "watermark": `the lower of the last mark: everything with an earlier time is written`,
  "upper": `the upper of a mark: no event below its cut is later, unless upper_is_bound is false`,
  "upper bound": `the upper of a mark: no event below its cut is later, unless upper_is_bound is false`,
  "time window": `the lower and upper bound of a reader's position, from the marks`,
  "claim": `a statement in a table's commit: all rows with a time below T are in this commit or an earlier one`,
  "scale event": `segments are sealed at final offsets, and their successors are created`,
  "sealed": `A sealed stream accepts no more notes. All its events lie below its final cut.`,
  "final cut": `A sealed stream accepts no more notes. All its events lie below its final cut.`,
  "derived stream": `a stream that a query over another stream writes and notes`,
  "service clock": `a clock that runs only while a controller serves; it measures timeouts and retention`,
  "member": `a writer that the stream knows: live, idle, finished or excluded`,
  "expected writer": `a writer in expected_writers, a member before its first note`,
  "default domain": `the only domain of a stream, or default; a stream with several others has none`,
  "join": `a live note without a time; the writer becomes a member, or reports its return`,
  "session": `one process of a writer, identified by a random name in its notes`,
  "take over": `A new process takes over a writer's name. The old process is then fenced: its notes are rejected for
    good.`,
  "fenced": `A new process takes over a writer's name. The old process is then fenced: its notes are rejected for
    good.`,
  "completeness": `whether a dataset has all rows below a time: complete, waiting, unknown or incomplete`,
  "verdict": `whether a dataset has all rows below a time: complete, waiting, unknown or incomplete`,
  "lack": `a reason why a dataset is not complete, or a remark about it`,
  "vouch for": `to promise, for a domain, that all rows below a time are below the cut. A writer vouches for all
    domains, or only for its domains`,
  "advance": `the decisions of a domain: a new mark is made; the watermark waits for live members; no live writer
    exists`,
  "wait": `the decisions of a domain: a new mark is made; the watermark waits for live members; no live writer
    exists`,
  "quiet": `the decisions of a domain: a new mark is made; the watermark waits for live members; no live writer
    exists`,
  "hold back": `A live member holds back the watermark while the watermark waits for it.`,
  "leader": `a live writer that no other writer has overtaken; the watermark does not wait for it while it waits for
    another`,
  "overtaken": `Another writer noted a later time, so silence counts towards the timeout.`,
  "timed out": `The watermark waited for the writer, which was silent for its timeout.`,
  "removed": `The writer was excluded by an operator; its rows stay below the cut.`,
  "narrowed": `The writer dropped the domain from its domains, and is missing there.`,
  "returned below": `The writer came back with a time below the lower, and returning_writer is exclude.`,
  "excluded": `The writer timed out, was removed or returned below. The watermark does not wait for it until its
    time is above the lower.`,
  "missing": `A mark lacks the writer: the watermark advanced without it, and no mark counts it again yet.`,
  "returned later": `why an earlier mark lacks a writer: a later mark counts it again, or for the first time`,
  "joined later": `why an earlier mark lacks a writer: a later mark counts it again, or for the first time`,
  "status": `the condition of a writer in one domain, such as counted, idle, removed or narrowed; it is stored as
    one value, with the last spells`,
  "spell": `a row of marks that count a writer, from a mark on; it ends when the writer is idle or excluded`,
  "suspension of a timeout": `An operator suspends the timeout of a writer until a moment: the watermark waits for
    the writer, however long it is silent.`,
  "no-time reason": `why a writer is alive but notes no time, such as an event that was not delivered; the writer
    reports it in no_time_reason, and does not time out`,
  "late": `said of rows: their time is below the lower when they are written`,
  "late rows": `rows that a writer wrote below the lower of that moment, and reports`,
  "broken promise": `rows that a writer wrote below the lower of that moment, and reports`,
  "late row of a query": `a row below the lower that the query applied in an earlier micro-batch`,
  "observer": `a writer that only reads a log, and notes its ingestion time or event time`,
  "relay": `a program that copies each mark to the noted topic of a Kafka topic once the mark's rows are readable`,
  "lag": `how far a time is behind: of a watermark, behind the wall clock; of a reader, behind the last mark`,
  "backlog": `the state of a reader that is catching up, or declares that it is`,
  "dry run": `explain with exclude or writer_timeout_ms; it shows effects and changes nothing`,
  "ledger": `the record of marks that advanced without a writer, and of late rows`,
  "change": `an operator's action on a stream or writer, with author and reason`,
};
