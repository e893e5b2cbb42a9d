// Package notedtime notes the time of one writer of a partitioned log.
//
// A note says: all my events before this time lie below this position. A noted-time controller
// aggregates the notes of all writers, and readers get a watermark that loses no event.
//
// Follow this order, or readers may lose events:
//
//  1. [NewWriter] joins the stream. From then on, the watermark waits for the writer.
//  2. Look up the ends of the segments, write events, and make them durable.
//  3. [Writer.Note] notes a time, and the offsets after the last durable event.
//  4. [Writer.Idle] or [Writer.Finish] ends the wait. If the program ends without them, the
//     watermark waits until the writer's timeout.
//
// Each call returns once its note is durable or refused, and repeats the request until then. If its
// context ends first, go on: the next call includes this note. So a writer does not have to stop
// while the controller is away. Calls that wait for an earlier one are sent together, as one note.
package notedtime

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// A Position maps segments, such as Kafka partitions, to exclusive offsets: everything below an
// offset is written. A segment that a call does not name keeps its offset.
type Position map[int]int64

// A Config describes a writer. URL, Stream and Writer are required.
type Config struct {
	URL     string        // of the controller, or of several of one database, separated by commas
	Stream  string        // the name of the stream
	Writer  string        // the name of the writer: one process at a time can note under it
	Token   string        // by default the environment variable NOTED_TIME_TOKEN
	Timeout time.Duration // how long the watermark waits for a silent writer; 0 changes nothing
	Domain  string        // the time domain of the events; by default all of the stream
	Log     string        // the id of the log, such as the id of the Kafka topic
	Client  *http.Client  // by default a client with a timeout of 10 s
	Contact string        // whom people ask about the writer: a line of up to 200 characters
	OnRetry func(error)   // is called with why a request is repeated, for example to log it
}

// An Answer describes the stream after a call. Times are in Unix ms.
type Answer struct {
	Lower    *int64     // the watermark: earlier events are late; nil before the first mark
	Excluded *Exclusion // nil if the watermark waits for the writer
}

// An Exclusion says that the watermark advances without the writer, so events below it are late.
// It ends when the writer notes a time above the watermark.
type Exclusion struct {
	Reason string // "timed_out", "removed" or "returned_below"
	Since  int64
}

// A Writer notes the time of one writer. Its methods are safe for concurrent use.
type Writer struct {
	config  Config
	urls    []string      // the next request goes to the first
	sending chan struct{} // has an element while a call sends

	// only the call that sends uses these two
	omitsContact       bool // an older controller refuses it
	hasReportedContact bool

	mu             sync.Mutex
	next           note // the latest position, state and time, and the fields of all notes
	hasUnsentTime  bool // the time has no answer
	hasUnsentState bool // the state has no answer
	mustJoin       bool // again, because the controller does not know the writer
	lastTicket     int  // the number of the last call
	numberedTicket int  // the last call in the request with the last sequence
	answeredTicket int  // the last call that has an answer
	answer         Answer
	err            error // of the last answer
}

// NewWriter joins the stream, and returns once the controller has accepted the join. An earlier
// process of the same name is fenced. ctx limits only this call.
func NewWriter(ctx context.Context, config Config) (*Writer, error) {
	if config.URL == "" || config.Stream == "" || config.Writer == "" {
		return nil, errors.New("notedtime: the Config needs URL, Stream and Writer")
	}
	if config.Token == "" {
		config.Token = os.Getenv("NOTED_TIME_TOKEN")
	}
	if config.Client == nil {
		config.Client = &http.Client{Timeout: 10 * time.Second}
	}
	host, _ := os.Hostname()
	w := &Writer{
		config:  config,
		urls:    strings.Split(strings.ReplaceAll(config.URL, " ", ""), ","),
		sending: make(chan struct{}, 1),
		next: note{
			Writer:    config.Writer,
			Session:   rand.Text(),
			Label:     fmt.Sprintf("%.100s:%d", host, os.Getpid()),
			TakesOver: true,
			Position:  Position{},
			Domain:    config.Domain,
		},
	}
	if _, err := w.Heartbeat(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

// Position returns the writer's offsets, with those of an earlier process of its name.
func (w *Writer) Position() Position {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.next.Position)
}

// Note notes that all events before t lie below the position. Call it once they are durable. It
// fails if t or an offset goes back.
func (w *Writer) Note(ctx context.Context, t time.Time, at Position) (Answer, error) {
	ms := t.UnixMilli()
	return w.call(ctx, "live", &ms, at)
}

// Heartbeat says that the writer lives, without a new time. The watermark waits for it.
func (w *Writer) Heartbeat(ctx context.Context) (Answer, error) {
	return w.call(ctx, "live", nil, nil)
}

// Idle says that the writer does not write for now: the watermark does not wait until the next
// [Writer.Note] or [Writer.Heartbeat]. Call one of them before you write again.
func (w *Writer) Idle(ctx context.Context, at Position) (Answer, error) {
	return w.call(ctx, "idle", nil, at)
}

// Finish says that the writer writes nothing more.
func (w *Writer) Finish(ctx context.Context, at Position) (Answer, error) {
	return w.call(ctx, "finished", nil, at)
}

// Flush waits until all calls have an answer, and sends the notes of those whose context ended.
func (w *Writer) Flush(ctx context.Context) (Answer, error) {
	w.mu.Lock()
	ticket := w.lastTicket
	isAnswered := w.answeredTicket == ticket
	answer := w.answer
	w.mu.Unlock()
	if isAnswered {
		return answer, nil
	}
	return w.wait(ctx, ticket)
}

// call records a note. A newer one replaces it, because that has the newer state and position.
func (w *Writer) call(ctx context.Context, state string, time *int64, at Position) (Answer, error) {
	ticket, err := w.record(state, time, at)
	if err != nil {
		return Answer{}, err
	}
	return w.wait(ctx, ticket)
}

// record returns the number of the call.
func (w *Writer) record(state string, time *int64, at Position) (ticket int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.check(time, at); err != nil {
		return 0, err
	}
	w.reach(at)
	w.next.State = state
	w.hasUnsentState = time == nil // a note with a time has the state, too
	if time != nil {
		w.next.Time = time
		w.hasUnsentTime = true
	}
	w.lastTicket++
	return w.lastTicket, nil
}

// check returns an error if the writer is fenced, or if the time or an offset goes back.
func (w *Writer) check(time *int64, at Position) error {
	if errors.Is(w.err, ErrFenced) {
		return w.err
	}
	lastTime := w.next.Time
	if time != nil && lastTime != nil && *time < *lastTime {
		return &RefusedError{"invalid_time", fmt.Sprintf("%d is below %d", *time, *lastTime)}
	}
	for segment, offset := range at {
		lastOffset := w.next.Position[segment]
		if offset < lastOffset {
			detail := fmt.Sprintf("offset %d of segment %d is below %d", offset, segment, lastOffset)
			return &RefusedError{"invalid_position", detail}
		}
	}
	return nil
}

// reach raises the offsets of the writer to those of a position.
func (w *Writer) reach(at Position) {
	for segment, offset := range at {
		w.next.Position[segment] = max(w.next.Position[segment], offset)
	}
}
