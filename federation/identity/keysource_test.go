package identity_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

const (
	aliceAddress = "https://alice.example/.well-known/did.json"
	freeqAPI     = "https://irc.freeq.example"
)

// newKeySource is a key source whose link "freeq" has a key server behind it.
func newKeySource(directory *identity.Directory, fetcher identity.Fetcher, record identity.KeyRecord) *identity.KeySource {
	return identity.NewKeySource(identity.KeySourceConfig{
		Negative: time.Minute, Stale: 24 * time.Hour,
		Peer: func(link string) (string, bool) { return freeqAPI, link == "freeq" },
	}, directory, fetcher, record)
}

// query is that of a step which was received now, over a link without a key server.
func query(did federation.DID, key ed25519.PublicKey) federation.KeyQuery {
	return federation.KeyQuery{DID: did, KeyID: federation.KeyID(key), Link: "oftc", Received: time.Now()}
}

type stand struct {
	*testing.T

	web    *web
	record *registry.Record
	source *identity.KeySource
}

func newStand(t *testing.T) *stand {
	t.Helper()
	s := &stand{T: t, web: &web{pages: map[string]string{}}, record: storetest.Open(t)}
	s.restart()
	return s
}

func (s *stand) restart() {
	server := federation.SigningKey{DID: "did:web:gw.example", Public: seededKey('s')}
	s.source = newKeySource(newDirectory(s.web, server), s.web, s.record)
}

func (s *stand) lists(keys ...ed25519.PublicKey) {
	var methods []string
	for i, key := range keys {
		methods = append(methods, fmt.Sprintf(`{"id": "#k%d", "type": "Multikey", "publicKeyMultibase": %q}`, i, multikey(key)))
	}
	s.web.pages[aliceAddress] = document(`, "verificationMethod": [` + strings.Join(methods, ",") + `]`)
}

func (s *stand) standing(q federation.KeyQuery) string {
	s.Helper()
	keys, err := s.source.Keys(s.Context(), q)
	_, away := errors.AsType[*federation.UnavailableError](err)
	switch {
	case errors.Is(err, federation.ErrKeyEnded):
		return "ended"
	case away:
		return "unavailable"
	case err != nil:
		return "no document"
	}
	for _, key := range keys {
		if federation.KeyID(key) == q.KeyID {
			return "good"
		}
	}
	return "unknown"
}

func (s *stand) check(what string, q federation.KeyQuery, want string) {
	s.Helper()
	if got := s.standing(q); got != want {
		s.Errorf("%s: %s, want %s", what, got, want)
	}
}

func (s *stand) asked() int {
	n := len(s.web.asked)
	s.web.asked = nil
	return n
}

func TestKeySourceReturnsKeysAndOwners(t *testing.T) {
	s := newStand(t)
	var source federation.KeySource = s.source
	did := identity.KeyDID(seededKey('a'))
	for _, q := range []federation.KeyQuery{query(did, seededKey('a')), {DID: did}, query(did, seededKey('b'))} {
		keys, err := source.Keys(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]ed25519.PublicKey{seededKey('a')}, keys); diff != "" {
			t.Errorf("%+v: %s", q, diff)
		}
	}
	if _, err := source.KeyOwner(t.Context(), "unknown"); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("owner of an unknown key: got %v, want ErrNotFound", err)
	}
	s.check("the gateway's own", query("did:web:gw.example", seededKey('s')), "good")
	s.check("a DID without a document", query("did:web:none.example", seededKey('a')), "no document")
}

func TestKeySourceFindsAKeyListedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		a, b := seededKey('a'), seededKey('b')
		s.lists(a)
		s.check("the first step", query(alice, a), "good")
		time.Sleep(time.Second)
		s.lists(a, b)
		s.check("a step at once by a key that was added", query(alice, b), "good")
	})
}

func TestKeySourceAsksOnceForAnUnknownKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		a, b := seededKey('a'), seededKey('b')
		s.lists(a)
		s.check("the first step", query(alice, a), "good")
		time.Sleep(10 * time.Second)
		if s.asked() != 1 {
			t.Error("the document was not fetched once")
		}
		s.check("a step by a key that the document does not list", query(alice, b), "unknown")
		s.check("another one", query(alice, b), "unknown")
		s.check("one by the key that it lists", query(alice, a), "good")
		if n := s.asked(); n != 1 {
			t.Errorf("asked %d times, want once", n)
		}
		s.lists(a, b)
		time.Sleep(49 * time.Second)
		s.check("before a minute is over", query(alice, b), "unknown")
		time.Sleep(11 * time.Second)
		s.check("after that", query(alice, b), "good")
		if n := s.asked(); n != 1 {
			t.Errorf("asked %d times, want once", n)
		}
	})
}

func TestKeySourceReportsOnlyNewKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		var told []federation.DID
		s.source = identity.NewKeySource(identity.KeySourceConfig{
			Negative: time.Minute, Stale: 24 * time.Hour, Learned: func(did federation.DID) { told = append(told, did) },
		}, newDirectory(s.web), s.web, s.record)
		a, b := seededKey('a'), seededKey('b')
		s.lists(a)
		s.check("the first step", query(alice, a), "good")
		s.check("the second", query(alice, a), "good")
		time.Sleep(2 * time.Hour) // the document is read again, and says the same
		s.check("a later one", query(alice, a), "good")
		if diff := cmp.Diff([]federation.DID{alice}, told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		s.lists(a, b)
		time.Sleep(2 * time.Hour)
		s.check("one by another key", query(alice, b), "good")
		if len(told) != 2 {
			t.Errorf("told %d times, want once for each key", len(told))
		}
	})
}

func TestKeySourceCachesKnownKeys(t *testing.T) {
	s := newStand(t)
	s.lists(seededKey('a'))
	for range 10 { // whose signatures fail, for all that a key source knows
		s.check("a step by a listed key", query(alice, seededKey('a')), "good")
	}
	if n := s.asked(); n != 1 {
		t.Errorf("asked %d times, want once", n)
	}
}

func TestKeySourceAcceptsARevokedKeyForEarlierSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		a, b := seededKey('a'), seededKey('b')
		s.lists(a)
		before := query(alice, a)
		s.check("a step by the old key", before, "good")
		time.Sleep(10 * time.Minute)
		s.lists(b)
		s.check("a step by the new key", query(alice, b), "good")
		time.Sleep(time.Second)
		s.check("the old step, judged again", before, "good")
		s.check("a new step by the old key", query(alice, a), "ended")
		early := query(alice, b)
		early.Received = before.Received
		s.check("a step by the new key that came before it was listed", early, "good")
		s.restart()
		s.check("the old step after a restart", before, "good")
		s.check("a new step by the old key after a restart", query(alice, a), "ended")
		time.Sleep(2 * time.Hour)
		gap := query(alice, a)
		s.lists(a)
		time.Sleep(time.Hour)
		s.check("a step by the old key, listed again", query(alice, b), "ended")
		s.check("and that key", query(alice, a), "good")
		s.check("a step from between", gap, "ended")
	})
}

func TestKeySourceServesFromTheRecordForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		a, b := seededKey('a'), seededKey('b')
		s.lists(a)
		before := query(alice, a)
		s.check("a step", before, "good")
		s.web.down = true
		s.restart()
		time.Sleep(24 * time.Hour)
		s.check("a step at the end of the day", query(alice, a), "good")
		s.check("one by an unknown key", query(alice, b), "unavailable")
		time.Sleep(time.Hour)
		s.check("a step after that", query(alice, a), "unavailable")
		s.check("the first step, judged again", before, "good")
		s.web.down = false
		time.Sleep(time.Minute)
		s.check("a step when it is back", query(alice, a), "good")
	})
}

func TestKeySourceAcceptsMSGSIGKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		a, m := seededKey('a'), seededKey('m')
		s.lists(a)
		report := federation.KeyReport{
			DID: alice, Origin: federation.ClientKey, Via: "client", At: time.Now(), Keys: []federation.ReportedKey{{Public: m}},
		}
		if err := s.source.Learn(t.Context(), report); err != nil {
			t.Fatal(err)
		}
		s.check("a step by the session's key", query(alice, m), "good")
		s.check("a step by the document's key", query(alice, a), "good")
		s.web.down = true
		time.Sleep(48 * time.Hour)
		s.check("the session's key while the document is away", query(alice, m), "good")
		s.check("the document's key", query(alice, a), "unavailable")
		before := query(alice, m)
		if err := s.source.Revoke(t.Context(), alice, federation.KeyID(m), time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		s.check("a step from before the revocation", before, "good")
		s.check("a step after it", query(alice, m), "ended")
		if err := s.source.Learn(t.Context(), federation.KeyReport{
			DID: alice, Origin: federation.ClientKey, Via: "elsewhere", At: time.Now(), Keys: []federation.ReportedKey{{Public: m}},
		}); err != nil {
			t.Fatal(err)
		}
		s.check("a step after it was registered again", query(alice, m), "ended")
	})
}

func TestKeySourceRevokesADIDKey(t *testing.T) {
	s := newStand(t)
	did := identity.KeyDID(seededKey('a'))
	q := query(did, seededKey('a'))
	if err := s.source.Revoke(t.Context(), did, q.KeyID, q.Received); err != nil {
		t.Fatal(err)
	}
	s.check("a step from that moment on", q, "ended")
	q.Received = q.Received.Add(-time.Nanosecond)
	s.check("a step before", q, "good")
}

func served(key ed25519.PublicKey) string {
	return fmt.Sprintf(`{"did": "x", "public_key": %q, "source": "key-store"}`, base64.RawURLEncoding.EncodeToString(key))
}

func TestKeySourceAcceptsAPeersKeyFromThatPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		p := seededKey('p')
		did := identity.KeyDID(seededKey('a'))
		q := query(did, p)
		s.check("over a link without a key server", q, "unknown")
		q.Link = "freeq"
		s.check("a key that the server does not have", q, "unknown")
		address := freeqAPI + "/api/v1/signing-keys/did%3Akey%3A" + multikey(seededKey('a')) + "/" + q.KeyID
		if diff := cmp.Diff([]string{address}, s.web.asked); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
		s.web.pages[address] = served(p)
		s.check("within a minute", q, "unknown")
		time.Sleep(time.Minute)
		s.check("a key that it has", q, "good")
		s.web.down = true
		s.restart()
		s.check("while it is away", q, "good")
		q.Link = "oftc"
		s.check("over another link", q, "unknown")
	})
}

func TestKeySourceReadsKeyServers(t *testing.T) {
	p := seededKey('p')
	for name, test := range map[string]struct {
		page, want string
		down       bool
	}{
		"the key":                 {page: served(p), want: "good"},
		"another key":             {page: served(seededKey('q')), want: "no document"},
		"no key":                  {page: `{}`, want: "no document"},
		"a key in base64":         {page: `{"public_key": "` + base64.StdEncoding.EncodeToString(p) + `"}`, want: "no document"},
		"two keys":                {page: `{"public_key": "", "public_key": ""}`, want: "no document"},
		"a page":                  {page: `<html>`, want: "no document"},
		"nothing while it is out": {down: true, want: "unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t)
			q := query(identity.KeyDID(seededKey('a')), p)
			q.Link = "freeq"
			s.web.down = test.down
			s.web.pages[freeqAPI+"/api/v1/signing-keys/did%3Akey%3A"+multikey(seededKey('a'))+"/"+q.KeyID] = test.page
			s.check("a step", q, test.want)
		})
	}
}

func TestKeySourceAsksNoPeerForOwnKeys(t *testing.T) {
	s := newStand(t)
	kept := identity.KeyDID(seededKey('k'))
	s.source = identity.NewKeySource(identity.KeySourceConfig{
		Negative: time.Minute,
		Peer:     func(string) (string, bool) { return freeqAPI, true },
		Ours:     func(_ context.Context, did federation.DID) bool { return did == kept },
	}, newDirectory(s.web, federation.SigningKey{DID: "did:web:gw.example", Public: seededKey('s')}), s.web, s.record)
	for _, did := range []federation.DID{"did:web:gw.example", kept} {
		q := query(did, seededKey('p'))
		q.Link = "freeq"
		s.check(string(did), q, "unknown")
	}
	if n := s.asked(); n != 0 {
		t.Errorf("asked %d times, want never", n)
	}
}

func TestKeySourceEndsReportedKeys(t *testing.T) {
	s := newStand(t)
	now := time.Unix(1_800_000_000, 0).UTC()
	did := identity.KeyDID(seededKey('x'))
	if err := s.source.Learn(t.Context(), federation.KeyReport{
		DID: did, Origin: federation.NetworkKey, Via: "peer.example", Whole: true, At: now,
		Keys: []federation.ReportedKey{
			{Public: seededKey('a')},
			{Public: seededKey('p'), Until: now.Add(100 * time.Second)},
			{Public: seededKey('r'), Until: now.Add(-1000 * time.Second)},
			{Public: seededKey('s'), Until: now},
		},
	}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[rune]map[int]string{
		'a': {-2000: "good", 0: "good", 200: "good"},
		'p': {0: "good", 99: "good", 100: "ended"},
		'r': {-1001: "good", -1000: "ended", 0: "ended"},
		's': {-1: "good", 0: "ended"},
	} {
		for second, want := range want {
			q := query(did, seededKey(byte(name)))
			q.Received = now.Add(time.Duration(second) * time.Second)
			s.check(fmt.Sprintf("key %c at %+d", name, second), q, want)
		}
	}
}

func TestKeySourceKeepsOnlyUsedKeys(t *testing.T) {
	s := newStand(t)
	a, b, c := seededKey('a'), seededKey('b'), seededKey('c')
	s.lists(a, b, c)
	s.check("a step by one of three keys", query(alice, b), "good")
	s.check("a step by another", query(alice, c), "good")
	history, err := s.record.History(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string]bool{}
	for _, w := range history {
		kept[w.KeyID] = true
		if w.Origin != federation.DocumentKey || w.Via != aliceAddress {
			t.Errorf("a window is %+v, want one of the document", w)
		}
	}
	if diff := cmp.Diff(map[string]bool{federation.KeyID(b): true, federation.KeyID(c): true}, kept); diff != "" {
		t.Errorf("keys on record (-want +got):\n%s", diff)
	}
	keys, err := s.source.Keys(t.Context(), federation.KeyQuery{DID: alice, Received: time.Now()})
	if err != nil || len(keys) != 3 {
		t.Errorf("for a signature that names no key: %d keys, %v, want 3", len(keys), err)
	}
}

// A replaced key of an agent is its own for steps from before the overlap ended, at any time of the
// question.
func TestKeySourceEndsAReplacedKeyAfterItsOverlap(t *testing.T) {
	s := newStand(t)
	old, next := seededKey('o'), seededKey('n')
	now := time.Now()
	key := func(id string, public ed25519.PublicKey) agents.Key {
		return agents.Key{ID: id, DID: identity.KeyDID(public), Public: public, Created: now}
	}
	agent := federationtest.NewAgent("scout")
	agent.OwnDID, agent.Keys = identity.KeyDID(old), []agents.Key{key("old", old)}
	if err := s.record.AddAgent(t.Context(), agent); err != nil {
		t.Fatal(err)
	}
	standing := func(received time.Time) string {
		q := federation.KeyQuery{DID: agent.OwnDID, KeyID: federation.KeyID(old), Received: received}
		keys, err := s.source.Keys(t.Context(), q)
		if errors.Is(err, federation.ErrKeyEnded) {
			return "ended"
		}
		if err != nil || len(keys) != 1 {
			t.Errorf("keys %v, %v", keys, err)
		}
		return "good"
	}
	if got := standing(now.Add(48 * time.Hour)); got != "good" {
		t.Errorf("before it is replaced: %s", got)
	}
	if _, err := s.record.RotateKey(t.Context(), "scout", "old", key("new", next), now, now.Add(24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	s.source.Forget(agent.OwnDID)
	for range 2 {
		if got := standing(now.Add(23*time.Hour)) + " " + standing(now.Add(24*time.Hour)); got != "good ended" {
			t.Errorf("after 23 and 24 hours: %s", got)
		}
		s.restart()
	}
}

// Two gateways share a record. A key revoked at one is not good at the other, which has used it
// just before.
func TestKeySourceEndsAKeyRevokedAtAnotherGateway(t *testing.T) {
	s := newStand(t)
	key := seededKey('a')
	did := identity.KeyDID(key)
	newSource := func() *identity.KeySource {
		return identity.NewKeySource(identity.KeySourceConfig{Shared: true}, newDirectory(s.web), s.web, s.record)
	}
	one, other := newSource(), newSource()
	now := time.Now()
	if err := one.Learn(t.Context(), federation.KeyReport{DID: did, Origin: federation.ClientKey, Keys: []federation.ReportedKey{{Public: key}}, At: now}); err != nil {
		t.Fatal(err)
	}
	s.source = other
	s.check("before", query(did, key), "good")
	if err := one.Revoke(t.Context(), did, federation.KeyID(key), now); err != nil {
		t.Fatal(err)
	}
	s.check("after", query(did, key), "ended")
}
