// Package fault contains panics. A fault in the code of one connection, request or job ends that one
// with an error; the rest of the gateway goes on.
//
// A goroutine that panics ends the process, whatever its starter defers. Each goroutine of the gateway
// therefore runs in a [Group], in [Func] or in [Catch]. The contained panic travels on as an error, or
// with [Again] as a panic of the waiting goroutine, up to the one place that logs and counts it: the
// supervisor of a link, the HTTP server, or the runner of a job.
package fault

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
)

// Error is a contained panic.
type Error struct {
	Value any    // of the panic
	Stack []byte // of its goroutine
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("a fault of this program: %v", e.Value) }

// LogValue implements [slog.LogValuer]: the log has the stack.
func (e *Error) LogValue() slog.Value {
	return slog.GroupValue(slog.String("fault", e.Error()), slog.String("stack", string(e.Stack)))
}

// Catch calls do and returns its error, or an [*Error] if do panics.
func Catch(do func() error) (err error) {
	defer func() {
		switch value := recover().(type) {
		case nil:
		case *Error: // of another goroutine
			err = value
		default:
			err = &Error{Value: value, Stack: debug.Stack()}
		}
	}()
	return do()
}

// Func returns a function that catches the panics of do.
func Func(do func() error) func() error {
	return func() error { return Catch(do) }
}

// Of returns the contained panic in the tree of an error, nil if there is none.
func Of(err error) *Error {
	caught, _ := errors.AsType[*Error](err)
	return caught
}

// Again panics with a contained panic, so that it counts as one of the calling goroutine. It does
// nothing for other errors.
func Again(err error) {
	if caught := Of(err); caught != nil {
		panic(caught)
	}
}

// Group is a [sync.WaitGroup] whose goroutines catch panics. The zero value is ready.
type Group struct {
	sync.WaitGroup

	// Caught is called with each panic, in the goroutine that panicked; it must not wait for the
	// group. Without it, Wait panics with the first one.
	Caught func(err error)

	mu    sync.Mutex
	first error
}

// Go calls do in a goroutine of the group.
func (g *Group) Go(do func()) {
	g.WaitGroup.Go(func() {
		err := Catch(func() error { do(); return nil })
		switch {
		case err == nil:
		case g.Caught != nil:
			g.Caught(err)
		default:
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.first == nil {
				g.first = err
			}
		}
	})
}

// Wait blocks until the goroutines have ended.
func (g *Group) Wait() {
	g.WaitGroup.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	Again(g.first)
}
