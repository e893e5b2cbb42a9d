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
	Code, Detail string
	Results      []result
}

type result struct {
	Answer
	Status   string
	Position Position
	Last     json.RawMessage // the value that the controller has
}

// An unansweredError says that the outcome of a request is unknown, so it is repeated.
type unansweredError struct{ reason, retryAfter string }

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
	for failures, corrections := 0, 0; w.answered < ticket && !errors.Is(w.err, ErrFenced); {
		notes, calls := w.collect()
		results, err := w.post(ctx, notes)
		if w.refusesContact(err) {
			continue
		}
		unanswered, is := err.(*unansweredError)
		if !is {
			corrections++
			w.settle(results, err, calls, corrections > mostCorrections)
			continue
		}
		w.omitsContact = false // the next controller may be newer
		if w.config.OnRetry != nil && ctx.Err() == nil {
			w.config.OnRetry(err)
		}
		w.urls = append(w.urls[1:], w.urls[0])
		if failures++; failures%len(w.urls) != 0 {
			continue
		}
		select {
		case <-time.After(pause(failures/len(w.urls), unanswered.retryAfter)):
		case <-ctx.Done():
			return Answer{}, fmt.Errorf("notedtime: not durable yet: %w (%v)", ctx.Err(), err)
		}
	}
	return w.answer, w.err
}

// collect returns the notes of a request. The sequence follows the clock in µs, so a restarted
// process has larger ones. A repeated request has the same. Each note has the whole position, so it
// covers the notes that it replaces.
func (w *Writer) collect() (notes []note, calls int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.numbered != w.calls {
		w.numbered, w.next.Sequence = w.calls, max(w.next.Sequence+1, time.Now().UnixMicro())
	}
	add := func(state string, time *int64) {
		n := w.next
		n.State, n.Time, n.Position = state, time, maps.Clone(n.Position)
		if state == "live" { // each time, because the stream may be deleted and created again
			n.Log, n.TimeoutMS = w.config.Log, w.config.Timeout.Milliseconds()
			if !w.omitsContact {
				n.Contact = w.config.Contact
			}
			if n.Domain != "" {
				n.Domains = []string{n.Domain}
			}
		}
		notes = append(notes, n)
	}
	if w.joins {
		add("live", nil)
	}
	if w.unsent {
		add("live", w.next.Time)
	}
	if w.changed {
		add(w.next.State, nil)
	}
	return notes, w.calls
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
	if w.config.OnRetry != nil && !w.saidContact {
		w.saidContact = true
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
	status, said := response.StatusCode, reply{}
	isBusy := status >= 500 || status == 408 || status == 425 || status == 429
	if err == nil && !isBusy && json.Unmarshal(content, &said) == nil && said.Code != "conflict" {
		if len(said.Results) == len(notes) {
			return said.Results, nil
		}
		if said.Code != "" {
			return nil, &RefusedError{said.Code, said.Detail}
		}
	}
	reason := fmt.Sprintf("no controller answers: status %d of %s, %.200q", status, address, content)
	return nil, &unansweredError{reason, response.Header.Get("Retry-After")}
}

// settle records an answer. The calls stay open if a refused note is to be sent in another form.
func (w *Writer) settle(results []result, err error, calls int, isLast bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err, w.numbered, w.joins = err, 0, false
	corrects := false
	for _, each := range results {
		if each.Status != "accepted" {
			w.err = &RefusedError{each.Status, "the controller has " + string(each.Last)}
			corrects = w.correct(each) || corrects
			continue
		}
		w.next.TakesOver = false
		w.reach(each.Position)
		w.answer = each.Answer
	}
	if corrects && !isLast {
		w.err = nil
		return
	}
	w.answered = calls
	if w.calls == calls {
		w.unsent, w.changed = false, false
		if w.err != nil {
			w.next.Time = nil // the controller may not have it
		}
	}
}

// correct prepares to send a refused note again, and reports whether it may then be accepted.
func (w *Writer) correct(refused result) bool {
	switch refused.Status {
	case "superseded": // by an older process with a faster clock, or by a younger one, which fences
		return json.Unmarshal(refused.Last, &w.next.Sequence) == nil
	case "unknown_writer": // the stream was created again
		w.joins = true
		return true
	}
	return false
}

// pause returns between half of a step and the step, which doubles, after the Retry-After.
func pause(failures int, retryAfter string) time.Duration {
	step := min(longestPause, firstPause<<min(failures-1, 10))
	seconds, _ := strconv.ParseUint(retryAfter, 10, 16)
	return time.Duration(min(seconds, longestAfterS))*time.Second + step/2 + rand.N(step/2)
}
