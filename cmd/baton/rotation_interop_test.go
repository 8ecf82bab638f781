//go:build interop

package main_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/fxamacker/cbor/v2"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

// ledger is a directory of did:plc with one DID, whose keys for steps can change. It
// serves HTTP.
type ledger struct {
	did string
	key *secp256k1.PrivateKey // that may change it

	mu      sync.Mutex
	entries []map[string]any
}

// newLedger begins the log of a DID with one key for steps.
func newLedger(t *testing.T, steps ed25519.PrivateKey) *ledger {
	t.Helper()
	l := &ledger{key: secp256k1.PrivKeyFromBytes(bytes.Repeat([]byte{7}, 32))}
	l.rotate(t, steps)
	return l
}

// person returns the DID with one of its keys, past or present.
func (l *ledger) person(key ed25519.PrivateKey) person { return person{key: key, did: l.did} }

// rotate puts another key for steps in the place of the last.
func (l *ledger) rotate(t *testing.T, steps ed25519.PrivateKey) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	rotation := identity.PublicKeyDID(federation.PublicKey{Kind: federation.Secp256k1, Bytes: l.key.PubKey().SerializeCompressed()})
	operation := map[string]any{
		"type": "plc_operation", "rotationKeys": []any{string(rotation)}, "alsoKnownAs": []any{}, "services": map[string]any{},
		"verificationMethods": map[string]any{"steps": didKey(steps[ed25519.SeedSize:])}, "prev": nil,
	}
	if n := len(l.entries); n > 0 {
		operation["prev"] = l.entries[n-1]["cid"]
	}
	unsigned := digest(t, operation)
	operation["sig"] = base64.RawURLEncoding.EncodeToString(ecdsa.SignCompact(l.key, unsigned[:], true)[1:])
	sum := digest(t, operation)
	if l.did == "" {
		l.did = "did:plc:" + lower32(sum[:])[:24]
	}
	l.entries = append(l.entries, map[string]any{
		"did": l.did, "operation": operation, "nullified": false, "createdAt": time.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
		"cid": "b" + lower32(append([]byte("\x01\x71\x12\x20"), sum[:]...)),
	})
}

// ServeHTTP answers with the log, for any DID.
func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !strings.HasPrefix(r.URL.Path, "/"+l.did+"/") {
		http.NotFound(w, r)
		return
	}
	text, err := json.Marshal(l.entries)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(text) // the client is gone
}

// digest is over the DAG-CBOR of an operation.
func digest(t *testing.T, operation map[string]any) [32]byte {
	t.Helper()
	mode, err := cbor.EncOptions{Sort: cbor.SortLengthFirst}.EncMode()
	if err != nil {
		t.Fatal(err)
	}
	text, err := mode.Marshal(operation)
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(text)
}

func lower32(b []byte) string {
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}

// insist sends a cancel each second until it is on the other network. The log of its
// signer was read just before; that a key is new is seen with the next reading.
func (tw *twin) insist(t *testing.T, d dialect, cancel signed) {
	t.Helper()
	for range 20 {
		send(t, tw.alice, cancel.tags)
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		_, err := tw.carol.Next(ctx, d.names("cancel", cancel.handoff))
		stop()
		if err == nil {
			return
		}
	}
	t.Fatal("the new key was not found out")
}

func TestRevokedKeyMidHandoff(t *testing.T) {
	t.Parallel()
	old, fresh := newPerson(t).key, newPerson(t).key
	plc := newLedger(t, old)
	directory := httptest.NewServer(plc)
	t.Cleanup(directory.Close)
	tables := fmt.Sprintf("[fetch]\nallow_private = true\n[identity]\nplc_url = %q\n", directory.URL)
	tw := newTwin(t, rfcTags, unlimited, tables)
	before, after := plc.person(old), plc.person(fresh)
	var offers []signed
	for _, d := range dialects() {
		for range 2 {
			offer := d.offer(before, channel, extras{"to": newPerson(t).did, "title": title})
			send(t, tw.alice, offer.tags)
			d.await(t, tw.carol, "offer", offer.handoff)
			offers = append(offers, offer)
		}
	}
	plc.rotate(t, fresh)
	for i, d := range dialects() {
		known, other := offers[2*i], offers[2*i+1]
		tw.insist(t, d, d.step(after, channel, "cancel", known.handoff, nil))
		stolen := d.step(before, channel, "cancel", other.handoff, nil)
		send(t, tw.alice, stolen.tags)
		tw.refused(t, tw.alice, "SIGNATURE_INVALID", stolen.event)
		folder := tw.export(t, known.handoff)
		told, code := verifyPassport(t, folder)
		if want := "valid: offered by " + plc.did + " (signed), cancelled 20"; code != 0 || !strings.HasPrefix(told, want) {
			t.Errorf("%s: the passport of a handoff that was opened with the old key: %d, %s\nwant %s", d, code, told, want)
		}
	}
}
