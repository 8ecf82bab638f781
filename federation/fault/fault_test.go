package fault_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation/fault"
)

func TestCatchReturnsThePanicWithItsStack(t *testing.T) {
	t.Parallel()
	plain := errors.New("plain")
	if err := fault.Catch(func() error { return plain }); !errors.Is(err, plain) || fault.Of(err) != nil {
		t.Errorf("an error is %v", err)
	}
	var nothing *strings.Builder
	caught := fault.Of(fault.Catch(func() error { nothing.WriteString("x"); return nil }))
	if caught == nil || !strings.Contains(caught.Error(), "nil pointer") || !strings.Contains(string(caught.Stack), "fault_test.go") {
		t.Fatalf("a nil dereference is %v", caught)
	}
	again := fault.Catch(func() error { fault.Again(fmt.Errorf("wrapped: %w", caught)); return nil })
	if fault.Of(again) != caught {
		t.Errorf("panicking again makes %v", again)
	}
}

func TestGroupPassesPanicsOn(t *testing.T) {
	t.Parallel()
	var g fault.Group
	g.Go(func() { panic("one") })
	g.Go(func() {})
	if err := fault.Catch(func() error { g.Wait(); return nil }); fault.Of(err) == nil {
		t.Errorf("the waiting goroutine gets %v", err)
	}
	var told error
	caught := fault.Group{Caught: func(err error) { told = err }}
	caught.Go(func() { panic("two") })
	caught.Wait()
	if fault.Of(told) == nil || fault.Of(told).Value != "two" {
		t.Errorf("Caught was called with %v", told)
	}
}
