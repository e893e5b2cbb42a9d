package notedtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

const accepted = `{"refused": 0, "results": [{"status": "accepted", "lower": null}]}`

// newController answers each request by the next of the answers, and the last one for ever. An
// empty answer ends the connection. The last note of a request is received.
func newController(t testing.TB, answers ...string) (url string, received chan note) {
	received = make(chan note, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Notes []note }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		received <- body.Notes[len(body.Notes)-1]
		next := answers[0]
		answers = answers[min(1, len(answers)-1):]
		switch {
		case next == "":
			panic(http.ErrAbortHandler)
		case next == "busy":
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		case next != accepted:
			w.WriteHeader(http.StatusUnprocessableEntity)
		case len(body.Notes) == 2:
			next = `{"results": [{"status": "accepted"}, {"status": "accepted"}]}`
		}
		fmt.Fprint(w, next)
	}))
	t.Cleanup(server.Close)
	return server.URL, received
}

func refused(status, last string) string {
	result := fmt.Sprintf(`{"status": %q, "last": %s}`, status, last)
	return fmt.Sprintf(`{"code": "notes_refused", "refused": 1, "results": [%s]}`, result)
}

func join(t *testing.T, answers ...string) (*Writer, chan note) {
	url, received := newController(t, append([]string{accepted}, answers...)...)
	w, err := NewWriter(t.Context(), Config{URL: url, Stream: "receipts", Writer: "till-1"})
	if err != nil {
		t.Fatal(err)
	}
	if joined := <-received; !joined.TakesOver || joined.Position != nil || joined.Session == "" {
		t.Fatalf("the join is %+v", joined)
	}
	return w, received
}

func TestANoteHasTheWholePosition(t *testing.T) {
	w, received := join(t, accepted)
	for i, at := range []Position{{0: 3}, {1: 5}} {
		if _, err := w.Note(t.Context(), time.UnixMilli(int64(i)), at); err != nil {
			t.Fatal(err)
		}
	}
	first, second := <-received, <-received
	if second.Position[0] != 3 || second.Position[1] != 5 || second.Sequence <= first.Sequence {
		t.Errorf("%+v follows %+v", second, first)
	}
}

func TestALostAnswerIsAskedForAgain(t *testing.T) {
	w, received := join(t, "", "busy", accepted)
	begun := time.Now()
	if _, err := w.Note(t.Context(), time.UnixMilli(1), Position{0: 1}); err != nil {
		t.Fatal(err)
	}
	first, second, third := <-received, <-received, <-received
	if first.Sequence != second.Sequence || second.Sequence != third.Sequence {
		t.Errorf("the sequences differ: %+v, %+v and %+v", first, second, third)
	}
	if time.Since(begun) < time.Second {
		t.Error("Retry-After is ignored")
	}
}

func TestAFencedWriterSendsNothingMore(t *testing.T) {
	w, received := join(t, refused("superseded", "9"), refused("fenced", `{"session": "other"}`))
	_, first := w.Note(t.Context(), time.UnixMilli(1), Position{0: 1})
	_, second := w.Heartbeat(t.Context())
	if !errors.Is(first, ErrFenced) || !errors.Is(second, ErrFenced) || len(received) != 2 {
		t.Errorf("%v, then %v, after %d requests", first, second, len(received))
	}
}

func TestARefusalHasItsCode(t *testing.T) {
	w, _ := join(t, refused("too_far_ahead", "7"), accepted)
	_, err := w.Note(t.Context(), time.UnixMilli(9), nil)
	if refusal := new(RefusedError); !errors.As(err, &refusal) || refusal.Code != "too_far_ahead" {
		t.Errorf("the error is %v", err)
	}
	if _, err := w.Note(t.Context(), time.UnixMilli(7), nil); err != nil {
		t.Errorf("after a refusal, an earlier time fails: %v", err)
	}
}

func TestAContactThatAnOlderControllerRefusesIsLeftOut(t *testing.T) {
	older := `{"code": "invalid_request", "detail": "body.notes.0.contact: unknown field"}`
	answers := []string{accepted, older, accepted, accepted, "", older, accepted}
	url, received := newController(t, answers...)
	var said []string
	w, err := NewWriter(t.Context(), Config{
		URL: url, Stream: "receipts", Writer: "till-1", Contact: "shop team",
		OnRetry: func(err error) { said = append(said, err.Error()) },
	})
	for i := int64(1); err == nil && i < 4; i++ {
		_, err = w.Note(t.Context(), time.UnixMilli(i), Position{0: i})
	}
	var contacts []string
	for len(received) > 0 {
		contacts = append(contacts, (<-received).Contact)
	}
	want := []string{"shop team", "shop team", "", "", "", "shop team", ""}
	if err != nil || !slices.Equal(contacts, want) {
		t.Errorf("%v, and the contacts are %q", err, contacts)
	}
	if len(said) != 2 || !strings.Contains(said[0], "upgrade the controller") {
		t.Errorf("OnRetry is called with %q", said)
	}
}

func TestAnInvalidContactIsRefused(t *testing.T) {
	url, _ := newController(t, `{"code": "invalid_request", "detail": "contact is too long"}`)
	config := Config{URL: url, Stream: "receipts", Writer: "till-1", Contact: "too long"}
	_, err := NewWriter(t.Context(), config)
	if refusal := new(RefusedError); !errors.As(err, &refusal) || refusal.Code != "invalid_request" {
		t.Errorf("the error is %v", err)
	}
}

func TestTheNextCallSendsANoteWhoseContextEnded(t *testing.T) {
	w, received := join(t, "", accepted)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := w.Note(ctx, time.UnixMilli(4), Position{0: 1})
	_, flushed := w.Flush(t.Context())
	if sent := []note{<-received, <-received}; !errors.Is(err, context.DeadlineExceeded) ||
		flushed != nil || *sent[1].Time != 4 {
		t.Errorf("%v, then %v, and the notes %+v", err, flushed, sent)
	}
}
