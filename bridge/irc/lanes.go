package irc

import (
	"iter"
	"slices"
)

// Lanes are the steps of a link that are judged or wait for it, in the order in which
// they came. Steps of one lane are judged one after the other, and steps of different
// lanes side by side, so that a key that takes long to find holds up only its lane. How
// many are judged at a time is bounded by [Slots]. They belong to one goroutine.
type Lanes[S, Lane comparable] struct {
	of    func(S) Lane
	most  int
	steps []laned[S]
}

// laned is a step in its lane.
type laned[S comparable] struct {
	step    S
	judging bool
}

// NewLanes returns lanes with room for a number of steps. Which lane a step is in does
// not change while it is there.
func NewLanes[S, Lane comparable](most int, of func(S) Lane) *Lanes[S, Lane] {
	return &Lanes[S, Lane]{of: of, most: most}
}

// Full reports whether there is room for no more. What is added then is taken in all the
// same: it was read already.
func (l *Lanes[S, Lane]) Full() bool { return len(l.steps) >= l.most }

// Empty reports whether nothing is judged or waits for it.
func (l *Lanes[S, Lane]) Empty() bool { return len(l.steps) == 0 }

// All returns the steps in the order in which they came.
func (l *Lanes[S, Lane]) All() iter.Seq[S] {
	return func(yield func(S) bool) {
		for _, each := range l.steps {
			if !yield(each.step) {
				return
			}
		}
	}
}

// Add puts a step at the end of its lane.
func (l *Lanes[S, Lane]) Add(step S) { l.steps = append(l.steps, laned[S]{step: step}) }

// Next returns a step whose turn it is, which is judged from then on. There is none where
// every lane waits for the step before.
func (l *Lanes[S, Lane]) Next() (step S, ok bool) {
	busy := map[Lane]bool{}
	for i, each := range l.steps {
		lane := l.of(each.step)
		if !each.judging && !busy[lane] {
			l.steps[i].judging = true
			return each.step, true
		}
		busy[lane] = true
	}
	return step, false
}

// Finish takes out a step that was judged.
func (l *Lanes[S, Lane]) Finish(step S) {
	l.steps = slices.DeleteFunc(l.steps, func(each laned[S]) bool { return each.step == step })
}
