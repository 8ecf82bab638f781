package server_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"baton/bridge/server"
	"baton/federation"
	"baton/federation/store/storetest"
)

// seenOn is a [server.Participants] whose users all signed last on one link.
type seenOn struct {
	noParticipants
	link string
}

func (s seenOn) Binding(_ context.Context, did federation.DID) (federation.Binding, error) {
	return federation.Binding{DID: did, Link: s.link}, nil
}

// channelLink is a fakeLink with users, all of them connected or none.
type channelLink struct {
	*fakeLink
	online atomic.Bool
}

func (*channelLink) Channels() []string                                { return []string{"#ops"} }
func (*channelLink) Dialect() federation.Dialect                       { return federation.HandoffTags }
func (l *channelLink) Online(context.Context, federation.Binding) bool { return l.online.Load() }

func TestAUserHasLeftOnlyWhereItsLinkIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGatewayOf(storetest.Open(t), seenOn{link: "lab"}, leases{"link lab"})
		lab := &channelLink{fakeLink: &fakeLink{name: "lab"}}
		if g.Left(t.Context(), "did:key:bob") {
			t.Error("a user of a link that is down has left")
		}
		g.Links().Apply(t.Context(), []server.Entry{{Link: lab}})
		defer g.Links().Stop()
		synctest.Wait()
		if !g.Left(t.Context(), "did:key:bob") {
			t.Error("a user that is not there has not left")
		}
		lab.online.Store(true)
		if g.Left(t.Context(), "did:key:bob") {
			t.Error("a user that is there has left")
		}
	})
}
