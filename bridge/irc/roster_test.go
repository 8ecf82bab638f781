package irc_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
)

func TestRosterEvictsTheQuietestPseudoClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := irc.NewRoster(&irc.PseudoClient{Name: "Baton"}, []string{"#ops"})
		var retired []federation.DID
		speak := func(did federation.DID) *irc.PseudoClient {
			time.Sleep(time.Second)
			return r.Speaker(did, "#ops", func() *irc.PseudoClient { return &irc.PseudoClient{} }, func(p *irc.PseudoClient) {
				retired = append(retired, p.DID)
			})
		}
		for n := range irc.MaxPseudoClients {
			speak(federation.DID(fmt.Sprintf("did:key:z%04d", n)))
		}
		speak("did:key:z0000")
		speak("") // the gateway's own user, which does not count
		last := speak("did:key:zlast")
		if diff := cmp.Diff([]federation.DID{"did:key:z0001"}, retired); diff != "" {
			t.Errorf("retired (-want +got):\n%s", diff)
		}
		if r.Has("did:key:z0001") || !r.Has(last.DID) || len(r.All()) != irc.MaxPseudoClients+1 || r.All()[0] != r.Self {
			t.Errorf("%d users, or the wrong ones", len(r.All()))
		}
	})
}

func TestRosterKeepsPseudoClientsInTheirChannels(t *testing.T) {
	r := irc.NewRoster(&irc.PseudoClient{Name: "Baton"}, []string{"#ops", "#dev"})
	if diff := cmp.Diff([]string{"#dev", "#ops"}, r.Self.Missing()); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	add := func() *irc.PseudoClient { return &irc.PseudoClient{} }
	var p *irc.PseudoClient
	for _, venue := range []string{"#ops", "#elsewhere", "did:key:za did:key:zb"} {
		p = r.Speaker("did:key:za", venue, add, nil)
	}
	if diff := cmp.Diff([]string{"#ops"}, p.Missing()); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	p.In["#ops"] = true
	if p = r.Speaker("did:key:za", "#ops", add, nil); p.Missing() != nil {
		t.Errorf("missing in %v where it is", p.Missing())
	}
	if r.LeaveChannels(); len(p.Missing()) != 1 {
		t.Error("it is still in a channel")
	}
}

func TestRecentIDsReplaceTheOldest(t *testing.T) {
	r := irc.Recent{Most: 2}
	var added []bool
	for _, id := range []string{"a", "a", "b", "c", "a", "c"} {
		added = append(added, r.Add(id))
	}
	if diff := cmp.Diff([]bool{true, false, true, true, true, false}, added); diff != "" {
		t.Errorf("added (-want +got):\n%s", diff)
	}
}
