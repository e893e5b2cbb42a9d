package notedtime

import "errors"

// ErrFenced says that another process has taken over the writer's name. It is final: every later
// call of this writer fails with it.
var ErrFenced = errors.New("notedtime: another process has the writer's name: stop this one")

// A RefusedError is a final refusal: the same note would be refused again.
type RefusedError struct {
	Code   string // the API's code of the problem, or its status of the note
	Detail string // the value that the controller has, or the fault in the request
}

func (e *RefusedError) Error() string { return "notedtime: refused as " + e.Code + ": " + e.Detail }

// Is reports whether the writer is fenced, if target is [ErrFenced].
func (e *RefusedError) Is(target error) bool { return target == ErrFenced && e.Code == "fenced" }
