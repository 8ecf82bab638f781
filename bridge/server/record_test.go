package server_test

import (
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/server"
	"github.com/baton-gateway/baton/configs"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

func defaultRetention() server.Retention {
	keep := configs.Default().Retention
	return server.Retention{Chat: keep.Chat, Undelivered: keep.Undelivered, Finished: keep.Finished, AIRCMessages: keep.AIRCMessages, IDs: keep.IDs, Dead: keep.Dead}
}

// finishedRecord returns a record of this many closed handoffs, each with a
// message to its agent, and of a newer open one.
func finishedRecord(t *testing.T, handoffs int) *registry.Record {
	t.Helper()
	record := storetest.Open(t)
	ada, bob := federationtest.Person("ada"), federationtest.Person("bob")
	file := func(f federation.Filing) federation.View {
		t.Helper()
		if _, err := record.Append(t.Context(), f); err != nil {
			t.Fatalf("Append: %v", err)
		}
		return f.View
	}
	for n := range handoffs {
		offer := federationtest.Offer(2*n+1, ada, bob)
		offered := file(federationtest.File(offer, federation.View{}))
		file(federationtest.File(federationtest.Step(2*n+2, offer, federation.Decline, bob), offered))
		message := federationtest.Message(n+1, "scout", "judge")
		if _, err := record.Post(t.Context(), agents.Posting{Message: message}); err != nil {
			t.Fatalf("Post: %v", err)
		}
	}
	file(federationtest.File(federationtest.Offer(2*handoffs+1, ada, bob), federation.View{}))
	return record
}

func TestPruneFollowsTheConfiguration(t *testing.T) {
	const handoffs, day = 100, 24 * time.Hour // more than a few batches
	now := federationtest.At(2 * handoffs)
	for _, tt := range []struct {
		name                    string
		keep                    server.Retention
		later                   time.Duration
		handoffs, messages, ids int
	}{
		{"nothing for ever", server.Retention{}, 10000 * day, 0, 0, 0},
		{"nothing before its time", defaultRetention(), 29 * day, 0, 0, 0},
		{"messages first", defaultRetention(), 31 * day, 0, handoffs - 1, 0},
		{"then handoffs", defaultRetention(), 91 * day, handoffs, handoffs - 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			record := finishedRecord(t, handoffs)
			for _, again := range []bool{false, true} {
				gone, err := server.Prune(t.Context(), record, tt.keep, now.Add(tt.later))
				if again {
					tt.handoffs, tt.messages, tt.ids = 0, 0, 0
				}
				if err != nil || gone != (server.Pruned{Handoffs: tt.handoffs, Messages: tt.messages, IDs: tt.ids}) {
					t.Errorf("gone are %d handoffs, %d messages, %d ids, %v; want %d, %d, %d", gone.Handoffs, gone.Messages, gone.IDs, err, tt.handoffs, tt.messages, tt.ids)
				}
			}
		})
	}
}

func TestPruneKeepsIDsLongerThanHandoffs(t *testing.T) {
	const handoffs, day = 50, 24 * time.Hour
	record, keep := finishedRecord(t, handoffs), defaultRetention()
	pruned := federationtest.At(0).Add(91 * day)
	for _, tt := range []struct {
		at   time.Duration // after they were pruned
		want int
	}{{0, 0}, {29 * day, 0}, {30 * day, 2 * handoffs}, {31 * day, 0}} {
		if gone, err := server.Prune(t.Context(), record, keep, pruned.Add(tt.at)); err != nil || gone.IDs != tt.want {
			t.Errorf("after %s are forgotten %d ids, %v, want %d", tt.at, gone.IDs, err, tt.want)
		}
	}
}
