package identity_test

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

func TestKeyFolderMakesEachKeyOnce(t *testing.T) {
	t.Parallel()
	folder := identity.KeyFolder{Dir: filepath.Join(t.TempDir(), "keys")}
	if _, err := folder.Key(t.Context(), identity.ServerKey); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("a key that does not exist: %v", err)
	}
	made, err := folder.Create(t.Context(), identity.ServerKey, false, "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := folder.Create(t.Context(), identity.ServerKey, false, "", time.Now()); !errors.Is(err, identity.ErrKeyExists) {
		t.Errorf("a second one: %v", err)
	}
	if key, err := folder.Key(t.Context(), identity.ServerKey); err != nil || !key.Public.Equal(made.Public) {
		t.Errorf("got %+v, %v", key, err)
	}
}

func TestKeyFolderNeedsEachKeyOfAUsedRecord(t *testing.T) {
	t.Parallel()
	folder := identity.KeyFolder{Dir: filepath.Join(t.TempDir(), "keys")}
	if err := folder.Check(t.Context(), nil, false); err != nil {
		t.Errorf("a new record: %v", err)
	}
	if err := folder.Check(t.Context(), nil, true); !errors.As(err, new(*identity.LostKeysError)) {
		t.Errorf("a used record: %v", err)
	}
}

func TestKeyFolderRefusesReadableSeeds(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seed")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	seed := hex.EncodeToString(make([]byte, 32)) + "\n"
	write(seed, 0o600)
	if key, err := identity.ReadSeed(path); err != nil || key.DID != identity.KeyDID(key.Public) {
		t.Errorf("got %+v, %v", key.DID, err)
	}
	write(seed, 0o640)
	if _, err := identity.ReadSeed(path); err == nil || !strings.Contains(err.Error(), "mode 0640") {
		t.Errorf("a file that others may read: %v", err)
	}
	write(seed+"x", 0o600)
	if _, err := identity.ReadSeed(path); err == nil {
		t.Error("a longer file is read")
	}
}

type history struct {
	federation.Keys
	of      federation.DID
	windows federation.KeyHistory
}

func (h history) History(_ context.Context, did federation.DID) (federation.KeyHistory, error) {
	if did != h.of {
		return nil, nil
	}
	return h.windows, nil
}

func TestPublisherServesKeysOnRecordAndItsOwn(t *testing.T) {
	t.Parallel()
	ring, err := identity.KeyFolder{Dir: filepath.Join(t.TempDir(), "keys")}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kept, person, foreign := ring.Kept("airc:scout"), identity.NewPerson(), identity.NewPerson()
	bound := federation.DID("did:plc:aaaaaaaaaaaaaaaaaaaaaaaa")
	mux := http.NewServeMux()
	identity.Publisher{Home: "gw.example", Keyring: ring, Keys: history{of: bound, windows: federation.KeyHistory{
		{Public: kept.Public}, {Public: foreign.Public, Origin: federation.PeerKey},
	}}}.Mount(mux)
	for path, want := range map[string]int{
		"/.well-known/did.json":                 http.StatusOK,
		"/api/v1/signing-keys/" + string(bound): http.StatusOK,
		"/api/v1/signing-keys/" + string(bound) + "/" + federation.KeyID(kept.Public):                   http.StatusOK,
		"/api/v1/signing-keys/" + string(bound) + "/" + federation.KeyID(foreign.Public):                http.StatusNotFound,
		"/api/v1/signing-keys/did:web:gw.example/" + federation.KeyID(ring.Server("gw.example").Public): http.StatusOK,
		"/api/v1/signing-keys/" + string(person.DID):                                                    http.StatusOK,
		"/api/v1/signing-keys/did:web:other.example":                                                    http.StatusNotFound,
		"/api/v1/signing-keys/nonsense":                                                                 http.StatusNotFound,
	} {
		recorder := httptest.NewRecorder()
		mux.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		if recorder.Code != want {
			t.Errorf("%s: %d %s, want %d", path, recorder.Code, recorder.Body, want)
		}
	}
}
