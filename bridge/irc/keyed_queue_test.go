package irc_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/irc"
)

// laneOf has the first letter of a step name its lane.
func laneOf(step string) byte { return step[0] }

// begun returns all steps whose turn it is.
func begun(l *irc.Lanes[string, byte]) (steps []string) {
	for step, ok := l.Next(); ok; step, ok = l.Next() {
		steps = append(steps, step)
	}
	return steps
}

func TestLanesAreJudgedConcurrentlyAndEachInOrder(t *testing.T) {
	l := irc.NewLanes(4, laneOf)
	for _, step := range []string{"a1", "a2", "b1"} {
		l.Add(step)
	}
	if l.Full() {
		t.Error("full with three of four")
	}
	l.Add("a3")
	if !l.Full() || l.Empty() {
		t.Error("not full with four of four")
	}
	if diff := cmp.Diff([]string{"a1", "b1"}, begun(l)); diff != "" {
		t.Errorf("begun (-want +got):\n%s", diff)
	}
	l.Finish("b1")
	if steps := begun(l); steps != nil {
		t.Errorf("%v begun before a1 was judged", steps)
	}
	for _, ends := range []string{"a1", "a2"} {
		l.Finish(ends)
		if steps := begun(l); len(steps) != 1 || steps[0] <= ends {
			t.Errorf("after %s comes %v", ends, steps)
		}
	}
	if diff := cmp.Diff([]string{"a3"}, slices.Collect(l.All())); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if l.Finish("a3"); !l.Empty() {
		t.Error("not empty when all were judged")
	}
}
