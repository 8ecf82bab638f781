package freeq_test

import (
	"context"
	"fmt"
	"testing"

	"baton/bridge/irc"
	"baton/federation"
)

func TestStepsThatWaitForKeysTakeNoSlot(t *testing.T) {
	h := newHouse(t)
	begun, release := make(chan struct{}, irc.LinkSlots+4), make(chan struct{})
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
	for i := range irc.LinkSlots + 4 {
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
	for range irc.LinkSlots + 4 {
		h.gateway.next(t)
	}
}

func TestTheEndOfALinkEndsTheWaitsForKeysAndLosesNoStep(t *testing.T) {
	h := newHouse(t)
	begun := make(chan struct{}, 1)
	h.gateway.fetch = func(ctx context.Context, _ federation.Event) {
		begun <- struct{}{}
		<-ctx.Done()
	}
	h.run(t)
	scout, _ := person("scout")
	if _, err := h.alice().Offer(channel, scout, "read before the end"); err != nil {
		t.Fatal(err)
	}
	<-begun
	h.server.Cut()
	select {
	case <-h.link.Lost():
	case <-patient(t).Done():
		t.Fatal("the loss of the connection was not told")
	}
	if ev := h.gateway.next(t); ev.Title != "read before the end" {
		t.Errorf("filed %q", ev.Title)
	}
}
