package admin_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/render"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

// document is the directory of these tests.
func (*house) document(_ context.Context, did federation.DID) (federation.Document, error) {
	if did == "did:web:none.example" {
		return federation.Document{}, errors.New("parse document of did:web:none.example: it belongs to \"did:web:x\"")
	}
	return federation.Document{
		DID: did, Keys: []ed25519.PublicKey{bridgetest.SeededKey("ada").Public}, Source: "https://ada.example/.well-known/did.json",
		Others: []federation.PublicKey{{Kind: federation.P256, Bytes: []byte("point")}}, Fetched: time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC),
		Skipped: []federation.SkippedKey{{ID: string(did) + "#u", Reason: "want a key in base58btc, which starts with z"}},
	}, nil
}

// refusedLogin returns a refused login of one DID.
func (*house) refusedLogin(did federation.DID) identity.RefusedLogin {
	if did != "did:web:ada.example" {
		return identity.RefusedLogin{}
	}
	return identity.RefusedLogin{At: time.Date(2026, 11, 26, 13, 0, 0, 0, time.UTC), Why: errors.New("the signature is wrong")}
}

func TestExplainDIDNamesKeysThatCannotBeUsed(t *testing.T) {
	h := newHouse(t)
	explained := func(did string) (e admin.ExplainedDID) {
		status, body := h.ask(t, http.MethodGet, "dids/"+did+"/explain", "")
		if err := json.Unmarshal([]byte(body), &e); err != nil || status != http.StatusOK {
			t.Errorf("%s is answered %d %s", did, status, body)
		}
		return e
	}
	got := explained("did:web:ada.example")
	public := bridgetest.SeededKey("ada").Public
	want := admin.ExplainedDID{
		DID: "did:web:ada.example", Source: "https://ada.example/.well-known/did.json", Fetched: admin.Moment(time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)),
		Keys: []admin.DocumentKey{
			{KeyID: federation.KeyID([]byte("point")), Kind: federation.P256, Public: "cG9pbnQ"},
			{KeyID: federation.KeyID(public), Kind: federation.Ed25519, Public: base64.RawURLEncoding.EncodeToString(public)},
		},
		Skipped:   []admin.SkippedKey{{ID: "did:web:ada.example#u", Reason: "want a key in base58btc, which starts with z"}},
		RefusedAt: admin.Moment(time.Date(2026, 11, 26, 13, 0, 0, 0, time.UTC)), RefusedWhy: "the signature is wrong",
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b admin.Moment) bool { return time.Time(a).Equal(time.Time(b)) })); diff != "" {
		t.Error(diff)
	}
	var out strings.Builder
	if err := render.DID(&out, got); err != nil || !strings.Contains(out.String(), "did:web:ada.example#u: want a key in base58btc, which starts with z") || !strings.Contains(out.String(), "the signature is wrong") {
		t.Errorf("%s, %v", out.String(), err)
	}
	none := explained("did:web:none.example")
	if none.Error != `parse document of did:web:none.example: it belongs to "did:web:x"` || len(none.Keys) != 0 {
		t.Errorf("%+v", none)
	}
	if status, body := h.ask(t, http.MethodGet, "dids/alice/explain", ""); status != http.StatusBadRequest {
		t.Errorf("no DID is answered %d %s", status, body)
	}
}
