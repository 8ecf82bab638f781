package irc_test

import (
	"context"
	"errors"
	"testing"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
)

func TestPassOrdersSteps(t *testing.T) {
	refused := federation.Refuse(federation.Event{}, federation.InvalidTarget, "")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx     context.Context //nolint:containedctx // of one case
		session func(rows <-chan int, answer chan<- error, over chan<- struct{})
		want    error // nil for a step without a refusal
		notNow  bool
	}{
		"the answer": {t.Context(), func(rows <-chan int, answer chan<- error, _ chan<- struct{}) {
			<-rows
			answer <- nil
		}, nil, false},
		"a refusal": {t.Context(), func(rows <-chan int, answer chan<- error, _ chan<- struct{}) {
			<-rows
			answer <- refused
		}, refused, false},
		"the answer that came with the end": {t.Context(), func(rows <-chan int, answer chan<- error, over chan<- struct{}) {
			<-rows
			answer <- nil
			close(over)
		}, nil, false},
		"no answer": {t.Context(), func(rows <-chan int, _ chan<- error, over chan<- struct{}) {
			<-rows
			close(over)
		}, nil, true},
		"an end before it was taken": {t.Context(), func(_ <-chan int, _ chan<- error, over chan<- struct{}) { close(over) }, nil, true},
		"a caller who does not wait": {ended, func(<-chan int, chan<- error, chan<- struct{}) {}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			rows, answer, over := make(chan int), make(chan error, 1), make(chan struct{})
			go test.session(rows, answer, over)
			err := irc.Pass(test.ctx, "lab", rows, 1, answer, over)
			if _, notNow := errors.AsType[*federation.UnavailableError](err); notNow != test.notNow || !notNow && !errors.Is(err, test.want) {
				t.Errorf("error %v", err)
			}
		})
	}
}
