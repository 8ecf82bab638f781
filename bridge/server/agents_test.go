package server_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/baton-gateway/baton/bridge/server"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

// channelLink is a fakeLink with users, all of them connected or none.
type channelLink struct {
	*fakeLink
	online atomic.Bool
}

func (*channelLink) Channels() []string                                { return []string{"#ops"} }
func (*channelLink) Dialect() federation.Dialect                       { return federation.HandoffTags }
func (l *channelLink) Online(context.Context, federation.Binding) bool { return l.online.Load() }

func TestLeftIsKnownOnlyWhileTheLinkIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		record := storetest.Open(t)
		if err := record.BindName(t.Context(), federation.BoundName{Network: "lab", Name: "bob", DID: "did:key:bob"}); err != nil {
			t.Fatal(err)
		}
		g := newGateway(record)
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
