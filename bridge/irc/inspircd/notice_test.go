package inspircd_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation"
)

func TestNoticesReachTheirSigner(t *testing.T) {
	notice := federation.Notice{
		Kind: federation.NoticeDelayed, To: "freeq", Why: "exec dumbpipe",
		Event: federation.Event{ID: mustID(t, acceptID), Handoff: mustID(t, offerID), Verb: federation.Accept, From: alice, Arrival: federation.Arrival{Name: "alice"}},
	}
	t.Run("as a NOTICE with the handoff it is about", func(t *testing.T) {
		h, peer := linked(t, nil)
		if err := h.link.Notify(waiting(t), notice); err != nil {
			t.Fatalf("Notify: %v\n%s", err, h.log)
		}
		got := await(t, peer, "NOTICE")
		want := "DELAYED " + acceptID + " your accept of handoff 00000H has not reached freeq yet and is tried on: exec dumbpipe"
		if got.Params[0] != peer.UUID("alice") || got.Params[1] != want || got.Nick != "Baton" || got.Tags["+freeq.at/ref"] != offerID {
			t.Errorf("%s told %v with %v, want %q", got.Nick, got.Params, got.Tags, want)
		}
	})
	t.Run("which count only after the PONG", func(t *testing.T) {
		h, peer := linked(t, nil)
		peer.HoldPongs(true)
		told := make(chan error, 1)
		go func() { told <- h.link.Notify(context.Background(), notice) }()
		await(t, peer, "NOTICE")
		select {
		case err := <-told:
			t.Fatalf("told without proof: %v", err)
		default:
		}
		peer.Drop()
		if _, later := errors.AsType[*federation.UnavailableError](<-told); !later {
			t.Error("a cut is not told as a not-now")
		}
	})
	t.Run("later, while it is not there", func(t *testing.T) {
		h, peer := linked(t, nil)
		peer.Quit("alice")
		awaitOnline(t, h, federation.Binding{Name: "alice"}, false)
		err := h.link.Notify(waiting(t), notice)
		if _, later := errors.AsType[*federation.UnavailableError](err); !later {
			t.Errorf("Notify: %v, want an UnavailableError", err)
		}
	})
	t.Run("but not of what shows: that it was delivered", func(t *testing.T) {
		h, peer := linked(t, nil)
		delivered, refused := notice, notice
		delivered.Kind, refused.Kind = federation.NoticeDelivered, federation.NoticeUndeliverable
		for _, n := range []federation.Notice{delivered, refused} {
			if err := h.link.Notify(waiting(t), n); err != nil {
				t.Fatal(err)
			}
		}
		if got := await(t, peer, "NOTICE").Params[1]; !strings.HasPrefix(got, "UNDELIVERABLE ") {
			t.Errorf("told %q", got)
		}
	})
}
