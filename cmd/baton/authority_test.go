package main_test

import (
	"fmt"
	"strings"
	"testing"
)

// Two homes with certificates of private authorities link by HTTPS if each names the
// authority of the other one. Otherwise the error tells the home which key to set.
func TestAuthorityOfHomesMayBePrivate(t *testing.T) {
	t.Parallel()
	all := newNeighbours(t, "a.test", "b.test")
	certificates := map[string]certified{}
	for _, n := range all {
		n.secure = true
		certificates[n.name] = certify(t, n.house, "localhost")
	}
	settle := func(n neighbour, authority string) {
		own := certificates[n.name]
		var peers strings.Builder
		for _, other := range all {
			if other.name != n.name {
				fmt.Fprintf(&peers, "[[peers]]\nname = %q\ndid = \"did:web:%s\"\nurl = %q\npath = \"https\"\n", other.name, other.name, strings.Replace(other.url(), "127.0.0.1", "localhost", 1))
				if authority != "" {
					fmt.Fprintf(&peers, "ca_file = %q\n", certificates[other.name].certFile)
				}
			}
		}
		n.named(t, "[fetch]\nallow_private = true\n", fmt.Sprintf("[tls]\ncert_file = %q\nkey_file = %q\n", own.certFile, own.keyFile), peers.String())
	}
	a, b := all[0], all[1]
	settle(a, "")
	settle(b, "named")
	a.start(t)
	b.start(t)
	await(t, "a.test to say what to set", func() bool {
		return strings.Contains(a.must(t, "peer", "list"), "set ca_file in its [[peers]]")
	})
	a.stop(t)
	settle(a, "named")
	a.start(t)
	alice, _ := a.key(t, 1)
	_, bob := b.key(t, 2)
	bobFile, _ := b.key(t, 2)
	first := b.must(t, "handoff", "offer", "--key-file", bobFile, "--open", "--title", "Seen at b")
	agree(t, first, "offer", a, b)
	id := a.must(t, "handoff", "offer", "--key-file", alice, "--to", bob, "--title", "By a private authority")
	agree(t, id, "offer", a, b)
}

func TestAuthorityThatIsUnreadableIsAMistake(t *testing.T) {
	t.Parallel()
	all := newNeighbours(t, "a.test", "b.test")
	all[0].behindNAT(t, all, "url = \"https://b.test\"\nca_file = \"nowhere.pem\"")
	out, ok := all[0].baton(t, "config", "check", all[0].config)
	if ok || !strings.Contains(out, "peers.ca_file: read authorities: open ") {
		t.Errorf("it is told: %s", out)
	}
	all[0].behindNAT(t, all, "url = \"https://b.test\"\nkey = \"did:web:b.test\"")
	if out, ok := all[0].baton(t, "config", "check", all[0].config); ok || !strings.Contains(out, "peers.key: want the did:key that baton keys show server prints") {
		t.Errorf("it is told: %s", out)
	}
	all[0].behindNAT(t, all, "path = \"https\"")
	if out, ok := all[0].baton(t, "config", "check", all[0].config); ok || !strings.Contains(out, `peers.url: required with path = "https"`) {
		t.Errorf("it is told: %s", out)
	}
}

func TestPeerAddNamesTheFlagForPrivateAddresses(t *testing.T) {
	t.Parallel()
	all := newStrangers(t, "a.test")
	all[0].start(t)
	out, ok := all[0].baton(t, "peer", "add", "https://127.0.0.1:1", "--yes")
	if ok || !strings.Contains(out, "is a private address: in a closed network, say --allow-private") {
		t.Errorf("it is told: %s", out)
	}
}
