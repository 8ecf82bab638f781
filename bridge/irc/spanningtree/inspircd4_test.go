//go:build interop && linux

package spanningtree_test

import (
	"os"
	"testing"
)

// eachInspIRCd runs a test against Debian's InspIRCd 3, which speaks 1205, and against the
// InspIRCd 4 whose binary INSPIRCD4 names, which speaks 1206.
func eachInspIRCd(t *testing.T, test func(t *testing.T, server func(*setup))) {
	t.Helper()
	t.Run("InspIRCd 3", func(t *testing.T) { test(t, func(*setup) {}) })
	binary := os.Getenv("INSPIRCD4")
	if binary == "" {
		t.Log("not run with InspIRCd 4: INSPIRCD4 is unset")
		return
	}
	t.Run("InspIRCd 4", func(t *testing.T) {
		test(t, func(s *setup) { s.ircd.Binary, s.ircd.Name = binary, "irc4.lab.example" })
	})
}

func TestEachInspIRCdSpeaksItsOwnProtocol(t *testing.T) {
	eachInspIRCd(t, func(t *testing.T, server func(*setup)) {
		r := startReal(t, server)
		want := map[string]string{"irc.lab.example": "1205", "irc4.lab.example": "1206"}
		agreed := r.link.Describe().Negotiated
		if agreed["protocol"] != want[agreed["server"]] || agreed["tagmsg"] != "true" {
			t.Errorf("agreed on %v", agreed)
		}
		if err := r.tagged.Send(offerTags(), "TAGMSG", "#ops"); err != nil {
			t.Fatal(err)
		}
		r.gateway.next(t)
		if err := r.link.Deliver(waiting(t), acceptRow(t)); err != nil {
			t.Fatalf("deliver: %v\n%s", err, r.log)
		}
		await(t, r.tagged, "TAGMSG", from("scholar"))
	})
}
