package store_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"baton/federation"
	"baton/federation/federationtest"
)

// namedBefore fills a record of version 28 with agents, as statements that both databases
// read: how they registered is what their first columns tell.
func namedBefore() string {
	var all strings.Builder
	agent := func(handle, ownDID, shows string) {
		fmt.Fprintf(&all, `INSERT INTO agent (handle, did, own_did, registered, kept_key, shows_presence, shows_context)
			VALUES ('%s', 'did:key:kept-%s', '%s', 1, %s, '%s', '%s');`+"\n", handle, handle, ownDID, bytesOf(""), shows, shows)
	}
	key := func(handle string, n int, did string, created int) {
		fmt.Fprintf(&all, `INSERT INTO agent_key (handle, n, id, public, created, did) VALUES ('%s', %d, 'k_%s_%d', %s, %d, '%s');
			INSERT INTO key_owner (key_id, did) VALUES ('%s', '%s') ON CONFLICT DO NOTHING;`+"\n",
			handle, n, handle, n, bytesOf(did), created, did, federation.KeyID([]byte(did)), did)
	}
	sent := 0
	send := func(handle, envelope string) {
		sent++
		fmt.Fprintf(&all, `INSERT INTO message (id, sender, recipient, low, high, seq, position, envelope, received)
			VALUES ('m%d', '%s', 'z', '%s', 'z', %d, %d, %s, 1);`+"\n", sent, handle, handle, sent, sent, bytesOf(envelope))
	}
	agent("bound", "did:key:rotated", "")
	key("bound", 0, "did:key:bound", 1)
	key("bound", 1, "did:key:rotated", 2)
	agent("mallory", "did:key:bob", "public")
	key("mallory", 0, "did:key:bob", 1)
	send("mallory", `{"kid":"reg_1","aud":"gw","payload":{"kid":"k_mallory_0","aud":"gw"}}`)
	send("mallory", `{"kid":"k_mallory_0","nonce":"1","aud":"gw"}`)
	send("mallory", `no JSON`)
	agent("amy", "did:key:amy", "public")
	key("amy", 0, "did:key:amy", 1)
	send("amy", `{"kid":"k_amy_0","aud":"gw"}`)
	send("bound", `{"kid":"k_amy_0","aud":"gw"}`)
	agent("twin_1", "did:key:twin", "")
	key("twin_1", 0, "did:key:twin", 1)
	agent("twin_2", "did:key:twin", "contacts")
	key("twin_2", 0, "did:key:twin", 1)
	agent("signer", "did:key:signer", "public")
	key("signer", 0, "did:key:signer", 1)
	fmt.Fprintf(&all, `INSERT INTO binding (did, hash, network, link, name, first, key, seen)
		VALUES ('did:key:signer', 'h', 'irc', 'oftc', 'sig', 'sig', %s, 1);`, bytesOf(""))
	return all.String()
}

// bytesOf writes bytes as a statement does; the PostgreSQL test replaces the form.
func bytesOf(text string) string { return "x'" + hex.EncodeToString([]byte(text)) + "'" }

// checkNamed holds a record that was upgraded to what its agents proved.
func checkNamed(t *testing.T, record federationtest.Record) {
	t.Helper()
	owners, own := map[string]string{}, map[string]string{}
	for _, name := range []string{"bound", "rotated", "bob", "amy", "twin", "signer"} {
		agent, err := record.AgentOf(t.Context(), federation.DID("did:key:"+name))
		if err != nil && !errors.Is(err, federation.ErrNotFound) {
			t.Fatal(err)
		}
		owners[name] = agent.Handle
	}
	for _, handle := range []string{"bound", "mallory", "amy", "twin_1", "twin_2", "signer"} {
		agent, err := record.Agent(t.Context(), handle)
		if err != nil {
			t.Fatal(err)
		}
		own[handle] = strings.TrimPrefix(string(agent.OwnDID), "did:key:")
	}
	d := cmp.Diff(map[string]string{"bound": "bound", "rotated": "", "bob": "", "amy": "amy", "twin": "twin_1", "signer": ""}, owners) +
		cmp.Diff(map[string]string{
			"bound": "kept-bound", "mallory": "kept-mallory", "amy": "amy", "twin_1": "twin", "twin_2": "kept-twin_2", "signer": "kept-signer",
		}, own)
	if d != "" {
		t.Errorf("who has a DID, and which is an agent's own (-want +got):\n%s", d)
	}
	for name, want := range map[string]bool{"bob": false, "amy": true, "signer": true} {
		_, err := record.KeyOwner(t.Context(), federation.KeyID([]byte("did:key:"+name)))
		if (err == nil) != want {
			t.Errorf("KeyOwner of %s: %v", name, err)
		}
	}
	handles, total, err := record.Unproved(t.Context(), federationtest.At(1), 10)
	if d := cmp.Diff([]string{"bound", "mallory", "signer", "twin_2"}, handles); err != nil || total != 4 || d != "" {
		t.Errorf("Unproved = %d, %v (-want +got):\n%s", total, err, d)
	}
}

func TestAnUpgradeTakesDIDsFromAgentsThatOnlyNamedTheirKeys(t *testing.T) {
	dir := t.TempDir()
	old := oldRecord{raw(t, dir)}
	files, err := filepath.Glob("schema/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files[:28] {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		old.exec(t, string(text))
	}
	old.exec(t, "PRAGMA journal_mode = WAL; PRAGMA user_version = 28")
	old.exec(t, namedBefore())
	checkNamed(t, open(t, dir, prometheus.NewRegistry()))
}
