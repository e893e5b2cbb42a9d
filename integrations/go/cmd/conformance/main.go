// Command conformance is a writer program for noted-time's conformance runner:
//
//	./run conformance -- go run -C integrations/go ./cmd/conformance
//
// It reads a command a line from standard input, and answers each with one JSON object.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"notedtime"
)

type program struct {
	writer *notedtime.Writer
	ends   [2]int64 // of the segments of the program's log
	giveUp time.Duration
}

func main() {
	p := program{giveUp: 30 * time.Second}
	if seconds, err := strconv.ParseFloat(os.Getenv("NOTED_TIME_GIVE_UP_S"), 64); err == nil {
		p.giveUp = time.Duration(seconds * float64(time.Second))
	}
	encoder := json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		command, value, _ := strings.Cut(lines.Text(), " ")
		if err := encoder.Encode(p.answer(command, value)); err != nil || command == "close" {
			return
		}
	}
	os.Exit(1) // a crash: nothing more is sent
}

func (p *program) answer(command string, text string) map[string]any {
	first, second, _ := strings.Cut(text, " ")
	value := number(first)
	switch command {
	case "ends":
		p.ends = [2]int64{}
		fallthrough
	case "write":
		p.ends[0] += value
		p.ends[1] += number(second)
		return map[string]any{"answer": "ok", "position": p.position()}
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.giveUp)
	defer cancel()
	answer, err := p.perform(ctx, command, value)
	var refused *notedtime.RefusedError
	switch {
	case errors.Is(err, notedtime.ErrFenced):
		return map[string]any{"answer": "fenced"}
	case errors.As(err, &refused):
		return map[string]any{"answer": "refused", "code": refused.Code}
	case errors.Is(err, context.DeadlineExceeded):
		return map[string]any{"answer": "gave up"}
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	case answer.Excluded != nil:
		return map[string]any{"answer": "excluded"}
	case command == "note" && answer.Lower != nil && value <= *answer.Lower:
		return map[string]any{"answer": "accepted", "late": true}
	}
	return map[string]any{"answer": "accepted"}
}

func (p *program) perform(
	ctx context.Context, command string, value int64,
) (notedtime.Answer, error) {
	if p.writer == nil || command == "join" {
		w, err := notedtime.NewWriter(ctx, notedtime.Config{
			URL:    os.Getenv("NOTED_TIME_URL"),
			Stream: os.Getenv("NOTED_TIME_STREAM"),
			Writer: os.Getenv("NOTED_TIME_WRITER"),
		})
		if err != nil {
			return notedtime.Answer{}, err
		}
		p.writer = w
	}
	at := p.position()
	switch command {
	case "note":
		return p.writer.Note(ctx, time.UnixMilli(value), at)
	case "idle", "leave":
		return p.writer.Idle(ctx, at)
	case "finish":
		return p.writer.Finish(ctx, at)
	case "close":
		return p.writer.Flush(ctx)
	}
	return p.writer.Heartbeat(ctx)
}

func (p *program) position() notedtime.Position {
	return notedtime.Position{0: p.ends[0], 1: p.ends[1]}
}

func number(text string) int64 {
	value, _ := strconv.ParseInt(text, 10, 64)
	return value
}
