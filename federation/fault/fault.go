// Package fault contains panics. A panic in the code of one connection, request or job ends only
// that one, with an error.
//
// A panic in a goroutine ends the process, regardless of deferred calls in its parent. Each
// goroutine of the gateway therefore runs in a [Group], in [Func] or in [Catch]. Only one place
// logs and counts the panic: the supervisor of a link, the HTTP server, or the runner of a job.
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
	Value any
	Stack []byte // of its goroutine
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("a fault of this program: %v", e.Value) }

// LogValue implements [slog.LogValuer], with the stack.
func (e *Error) LogValue() slog.Value {
	return slog.GroupValue(slog.String("fault", e.Error()), slog.String("stack", string(e.Stack)))
}

// Catch calls do and returns its error, or an [*Error] if do panics.
func Catch(do func() error) (err error) {
	defer func() {
		switch value := recover().(type) {
		case nil:
		case *Error: // from another goroutine
			err = value
		default:
			err = &Error{Value: value, Stack: debug.Stack()}
		}
	}()
	return do()
}

// Func returns a function that calls do and catches its panics.
func Func(do func() error) func() error {
	return func() error { return Catch(do) }
}

// Of returns the contained panic in an error tree, or nil.
func Of(err error) *Error {
	caught, _ := errors.AsType[*Error](err)
	return caught
}

// Again panics with the contained panic in err, so that it counts as a panic of the caller. It does
// nothing for other errors.
func Again(err error) {
	if caught := Of(err); caught != nil {
		panic(caught)
	}
}

// Group is a [sync.WaitGroup] whose goroutines catch panics. The zero value is ready for use.
type Group struct {
	sync.WaitGroup

	// Caught is called with each panic, in the goroutine that panicked. It must not wait for the
	// group. If it is nil, Wait panics with the first panic.
	Caught func(err error)

	mu    sync.Mutex
	first error
}

// Go calls do in a new goroutine of the group.
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

// Wait blocks until all goroutines have ended.
func (g *Group) Wait() {
	g.WaitGroup.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	Again(g.first)
}
