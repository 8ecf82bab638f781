package freeq_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/baton-gateway/baton/federation"
)

func TestJudgeDelaysNoStepBehindSlowKeys(t *testing.T) {
	const slowSteps = 20
	h := newHouse(t)
	begun, release := make(chan struct{}, slowSteps), make(chan struct{})
	mallory, key := person("mallory")
	h.gateway.fetch = func(_ context.Context, ev federation.Event) {
		if ev.From == mallory {
			begun <- struct{}{}
			<-release
		}
	}
	h.run(t)
	scout, _ := person("scout")
	slow := h.server.Join("mallory", mallory, key)
	for i := range slowSteps {
		if _, err := slow.Offer(channel, scout, fmt.Sprintf("slow %d", i)); err != nil {
			t.Fatal(err)
		}
		<-begun
	}
	if _, err := h.alice().Offer(channel, scout, "quick"); err != nil {
		t.Fatal(err)
	}
	if ev := h.gateway.next(t); ev.Title != "quick" {
		t.Errorf("the first step that was judged is %q, want that of alice", ev.Title)
	}
	close(release)
	for range slowSteps {
		h.gateway.next(t)
	}
}

func TestJudgeKeepsStepsBehindSlowKeysAtTheEnd(t *testing.T) {
	h := newHouse(t)
	begun, release := make(chan struct{}, 1), make(chan struct{})
	h.gateway.fetch = func(context.Context, federation.Event) {
		begun <- struct{}{}
		<-release
	}
	h.run(t)
	scout, _ := person("scout")
	if _, err := h.alice().Offer(channel, scout, "read before the end"); err != nil {
		t.Fatal(err)
	}
	<-begun
	h.server.Cut()
	select {
	case <-h.link.Disconnected():
	case <-patient(t).Done():
		t.Fatal("the loss of the connection was not told")
	}
	close(release)
	if ev := h.gateway.next(t); ev.Title != "read before the end" {
		t.Errorf("filed %q", ev.Title)
	}
}
