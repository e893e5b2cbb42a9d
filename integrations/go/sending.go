package notedtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	firstPause      = 200 * time.Millisecond
	longestPause    = 5 * time.Second
	longestAfterS   = 300 // of a Retry-After
	mostBytes       = 32 << 20
	mostCorrections = 3
)

// A note is an entry of POST /v1/streams/{stream}/notes.
type note struct {
	Writer    string   `json:"writer"`
	Session   string   `json:"session"`
	Label     string   `json:"label"`
	TakesOver bool     `json:"takes_over,omitempty"` // until a note is accepted
	Sequence  int64    `json:"sequence"`             // of the request
	State     string   `json:"state"`
	Time      *int64   `json:"time,omitempty"`
	Position  Position `json:"position,omitempty"`
	Domain    string   `json:"domain,omitempty"`
	Domains   []string `json:"domains,omitempty"`
	TimeoutMS int64    `json:"timeout_ms,omitempty"`
	Log       string   `json:"log,omitempty"`
	Contact   string   `json:"contact,omitempty"`
}

// A reply has the results of the notes, or is a problem document (RFC 9457).
type reply struct {
	Code    string
	Detail  string
	Results []result
}

type result struct {
	Answer
	Status   string
	Position Position
	Last     json.RawMessage // the value that the controller has
}

// An unansweredError says that the outcome of a request is unknown, so it is repeated.
type unansweredError struct {
	reason     string
	retryAfter string // the header of the answer, if there was one
}

func (e *unansweredError) Error() string { return e.reason }

// wait sends until the call has an answer, or waits for the call that sends. So one request answers
// all calls that waited. If ctx ends first, the next call sends the note.
func (w *Writer) wait(ctx context.Context, ticket int) (Answer, error) {
	select {
	case w.sending <- struct{}{}:
		defer func() { <-w.sending }()
	case <-ctx.Done():
		return Answer{}, fmt.Errorf("notedtime: not sent yet: %w", ctx.Err())
	}
	failures := 0
	corrections := 0
	for w.answeredTicket < ticket && !errors.Is(w.err, ErrFenced) {
		notes, lastTicket := w.collect()
		results, err := w.post(ctx, notes)
		if w.refusesContact(err) {
			continue
		}
		unanswered, isUnanswered := err.(*unansweredError)
		if !isUnanswered {
			corrections++
			w.settle(results, err, lastTicket, corrections > mostCorrections)
			continue
		}
		failures++
		if err := w.turnToNext(ctx, unanswered, failures); err != nil {
			return Answer{}, err
		}
	}
	return w.answer, w.err
}

// turnToNext turns to the next controller, and pauses each time that all have failed. It returns an
// error if ctx ends meanwhile.
func (w *Writer) turnToNext(ctx context.Context, unanswered *unansweredError, failures int) error {
	w.omitsContact = false // the next controller may be newer
	if w.config.OnRetry != nil && ctx.Err() == nil {
		w.config.OnRetry(unanswered)
	}
	w.urls = append(w.urls[1:], w.urls[0])
	if failures%len(w.urls) != 0 {
		return nil
	}
	select {
	case <-time.After(pause(failures/len(w.urls), unanswered.retryAfter)):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("notedtime: not durable yet: %w (%v)", ctx.Err(), unanswered)
	}
}

// collect returns the notes of a request, and the last call that they cover. The sequence follows
// the clock in µs, so a restarted process has larger ones. A repeated request has the same. Each
// note has the whole position, so it covers the notes that it replaces.
func (w *Writer) collect() (notes []note, lastTicket int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.numberedTicket != w.lastTicket {
		w.numberedTicket = w.lastTicket
		w.next.Sequence = max(w.next.Sequence+1, time.Now().UnixMicro())
	}
	if w.mustJoin {
		notes = append(notes, w.build("live", nil))
	}
	if w.hasUnsentTime {
		notes = append(notes, w.build("live", w.next.Time))
	}
	if w.hasUnsentState {
		notes = append(notes, w.build(w.next.State, nil))
	}
	return notes, w.lastTicket
}

// build returns a note with the latest position. The caller holds the lock.
func (w *Writer) build(state string, time *int64) note {
	built := w.next
	built.State = state
	built.Time = time
	built.Position = maps.Clone(w.next.Position)
	if state != "live" {
		return built
	}
	// each time, because the stream may be deleted and created again
	built.Log = w.config.Log
	built.TimeoutMS = w.config.Timeout.Milliseconds()
	if !w.omitsContact {
		built.Contact = w.config.Contact
	}
	if built.Domain != "" {
		built.Domains = []string{built.Domain}
	}
	return built
}

// refusesContact reports whether an older controller refuses the contact. The notes are then sent
// without it, and OnRetry learns this once.
func (w *Writer) refusesContact(err error) bool {
	var refused *RefusedError
	if w.omitsContact || w.config.Contact == "" || !errors.As(err, &refused) {
		return false
	}
	detail := refused.Detail
	if !strings.Contains(detail, "unknown field") || !strings.Contains(detail, "contact") {
		return false
	}
	w.omitsContact = true
	if w.config.OnRetry != nil && !w.hasReportedContact {
		w.hasReportedContact = true
		w.config.OnRetry(fmt.Errorf("the controller refuses the contact, so notes are sent "+
			"without it: upgrade the controller (%w)", err))
	}
	return true
}

// post sends a request. It returns an unansweredError if the request is to be repeated, and a
// RefusedError if the controller refuses it as a whole.
func (w *Writer) post(ctx context.Context, notes []note) ([]result, error) {
	body, err := json.Marshal(map[string]any{"notes": notes})
	if err != nil {
		return nil, err
	}
	address, err := url.JoinPath(w.urls[0], "v1", "streams", w.config.Stream, "notes")
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, "POST", address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if w.config.Token != "" {
		request.Header.Set("Authorization", "Bearer "+w.config.Token)
	}
	response, err := w.config.Client.Do(request)
	if err != nil {
		return nil, &unansweredError{reason: "no answer: " + err.Error()}
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, mostBytes))
	if err == nil && !isBusy(response.StatusCode) {
		results, refused := readReply(content, len(notes))
		if results != nil {
			return results, nil
		}
		if refused != nil {
			return nil, refused
		}
	}
	reason := fmt.Sprintf(
		"no controller answers: status %d of %s, %.200q", response.StatusCode, address, content)
	return nil, &unansweredError{reason, response.Header.Get("Retry-After")}
}

// isBusy reports whether a status asks to repeat the request later.
func isBusy(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

// readReply returns the results of a request with so many notes, or why the controller refuses it
// as a whole. Both are nil if another program answers, or if the request is to be repeated.
func readReply(content []byte, notes int) ([]result, *RefusedError) {
	var answer reply
	if err := json.Unmarshal(content, &answer); err != nil || answer.Code == "conflict" {
		return nil, nil
	}
	if len(answer.Results) == notes {
		return answer.Results, nil
	}
	if answer.Code != "" {
		return nil, &RefusedError{answer.Code, answer.Detail}
	}
	return nil, nil
}

// settle records an answer to the calls up to lastTicket. They stay open if a refused note is to be
// sent in another form, unless isLastAttempt.
func (w *Writer) settle(results []result, err error, lastTicket int, isLastAttempt bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
	w.numberedTicket = 0
	w.mustJoin = false
	canBeCorrected := false
	for _, result := range results {
		if result.Status == "accepted" {
			w.next.TakesOver = false
			w.reach(result.Position)
			w.answer = result.Answer
			continue
		}
		w.err = &RefusedError{result.Status, "the controller has " + string(result.Last)}
		if w.correct(result) {
			canBeCorrected = true
		}
	}
	if canBeCorrected && !isLastAttempt {
		w.err = nil
		return
	}
	w.answeredTicket = lastTicket
	if w.lastTicket != lastTicket {
		return // a later call has a note to send
	}
	w.hasUnsentTime = false
	w.hasUnsentState = false
	if w.err != nil {
		w.next.Time = nil // the controller may not have it
	}
}

// correct prepares to send a refused note again, and reports whether it may then be accepted.
func (w *Writer) correct(refused result) bool {
	switch refused.Status {
	case "superseded": // by an older process with a faster clock, or by a younger one, which fences
		return json.Unmarshal(refused.Last, &w.next.Sequence) == nil
	case "unknown_writer": // the stream was created again
		w.mustJoin = true
		return true
	}
	return false
}

// pause returns the Retry-After, and between half of a step and the step, which doubles with each
// failure.
func pause(failures int, retryAfter string) time.Duration {
	step := min(longestPause, firstPause<<min(failures-1, 10))
	seconds, _ := strconv.ParseUint(retryAfter, 10, 16) // 0 for none, and for a date
	requested := time.Duration(min(seconds, longestAfterS)) * time.Second
	return requested + step/2 + rand.N(step/2)
}
