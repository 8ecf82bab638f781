package home_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/home"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/signing"
)

type oneDocument struct {
	key  person
	down bool
}

func (d *oneDocument) Get(context.Context, string) ([]byte, error) {
	if d.down {
		return nil, &federation.UnavailableError{What: "bob.example", Err: context.DeadlineExceeded}
	}
	return fmt.Appendf(nil, `{"id": "did:web:bob.example", "verificationMethod": [{"id": "#k", "type": "JsonWebKey",
		"publicKeyJwk": {"kty": "OKP", "crv": "Ed25519", "x": %q}}]}`, base64.RawURLEncoding.EncodeToString(d.key.key.Public)), nil
}

// newWebBench is a bench whose home finds keys as a gateway does. Bob has a did:web,
// whose document lists the first key.
func newWebBench(t *testing.T) (b bench, web *oneDocument, source *identity.KeySource) {
	t.Helper()
	b = newBench(t)
	b.now = time.Now()
	b.alice.did = identity.KeyDID(b.alice.key.Public)
	b.bob.did = "did:web:bob.example"
	web = &oneDocument{key: b.bob}
	directory := identity.NewDirectory(identity.DirectoryConfig{
		Fresh: time.Hour, Negative: time.Minute, Stale: 24 * time.Hour,
	}, web)
	source = identity.NewKeySource(identity.KeySourceConfig{Negative: time.Minute, Stale: 24 * time.Hour}, directory, web, b.record)
	b.home.Keys, b.home.Limits = source, home.Limits{} // the ids of these steps are of no time in particular
	return b, web, source
}

func (b bench) submit(ev federation.Event) (federation.Judgement, error) {
	ev.Arrival.Received = time.Now()
	return b.home.Submit(b.t.Context(), ev, time.Now())
}

func (b bench) mustSubmit(what string, ev federation.Event) {
	b.t.Helper()
	if judged, err := b.submit(ev); err != nil || judged.Verdict != federation.Valid {
		b.t.Errorf("%s: %s, %v, want it to be filed", what, judged.Verdict, err)
	}
}

func (b bench) mustRefuse(what string, ev federation.Event, verdict federation.Verdict, code federation.RefusalCode) {
	b.t.Helper()
	judged, err := b.submit(ev)
	if refused, ok := errors.AsType[*federation.RefusalError](err); judged.Verdict != verdict || !ok || refused.Code != code {
		b.t.Errorf("%s: %s, %v, want %s and %s", what, judged.Verdict, err, verdict, code)
	}
}

func (b bench) checkLog(steps int) {
	b.t.Helper()
	for entry, err := range b.record.Log(b.t.Context(), federationtest.ID(1), 0) {
		if err != nil {
			b.t.Fatal(err)
		}
		steps--
		if _, verdict, err := signing.Verify(b.t.Context(), b.home.Keys, entry.Event); verdict != federation.Valid {
			b.t.Errorf("the %s on file is %s: %v", entry.Event.Verb, verdict, err)
		}
	}
	if steps != 0 {
		b.t.Errorf("the log is %d steps short", steps)
	}
}

func TestSubmitAcceptsARotatedKeyMidHandoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, web, _ := newWebBench(t)
		old, fresh := b.bob, newPerson("bob's second key")
		fresh.did = old.did
		b.mustSubmit("an offer", b.step(1, b.alice, federation.Offer))
		accept := b.step(2, old, federation.Accept)
		b.mustSubmit("an accept by the old key", accept)

		time.Sleep(time.Minute)
		web.key = fresh
		b.mustSubmit("a step by the new key, which is fetched at once", b.step(3, fresh, federation.Progress))
		b.mustRefuse("a step by the old key", b.step(4, old, federation.Progress), federation.Invalid, federation.SignatureInvalid)
		b.mustSubmit("the accept once more", accept)
		b.checkLog(3)
		b.mustSubmit("the end", b.step(5, fresh, federation.Complete))
		b.checkLog(4)
	})
}

func TestSubmitRefusesARevokedKeyMidHandoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, source := newWebBench(t)
		b.mustSubmit("an offer", b.step(1, b.alice, federation.Offer))
		b.mustSubmit("an accept", b.step(2, b.bob, federation.Accept))
		time.Sleep(time.Minute)
		late := b.step(3, b.bob, federation.Progress) // by its id made before the revocation, and yet to come
		for _, by := range []person{b.alice, b.bob} {
			if err := source.Revoke(t.Context(), by.did, federation.KeyID(by.key.Public), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		b.mustRefuse("a step that comes after its key was revoked", late, federation.Invalid, federation.SignatureInvalid)
		b.mustRefuse("one by a did:key that was revoked", b.step(4, b.alice, federation.Cancel), federation.Invalid, federation.SignatureInvalid)
		b.checkLog(2)
	})
}

func TestSubmitDefersDuringAKeyOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, web, _ := newWebBench(t)
		fresh := newPerson("bob's second key")
		fresh.did = b.bob.did
		accept := b.step(2, b.bob, federation.Accept)
		b.mustSubmit("an offer", b.step(1, b.alice, federation.Offer))
		b.mustSubmit("an accept", accept)
		web.down = true
		time.Sleep(2 * time.Hour)
		b.mustSubmit("a step while the directory is away", b.step(3, b.bob, federation.Progress))
		b.mustRefuse("one by a key that only the directory knows", b.step(4, fresh, federation.Progress),
			federation.Unverifiable, federation.SignatureUnverifiable)
		time.Sleep(48 * time.Hour)
		b.mustRefuse("one after two days", b.step(5, b.bob, federation.Progress), federation.Unverifiable, federation.SignatureUnverifiable)
		b.mustSubmit("the accept once more", accept)
		b.checkLog(3)
		web.down = false
		time.Sleep(time.Minute)
		b.mustSubmit("a step when it is back", b.step(6, b.bob, federation.Progress))
	})
}
