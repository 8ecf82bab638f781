package main_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

// commandHost is an agent host that runs "baton mcp".
type commandHost struct {
	*sdk.ClientSession
	t   *testing.T
	cmd *exec.Cmd
}

// newCommandHost starts the command with more arguments, and connects to it.
func newCommandHost(t *testing.T, h *house, arguments ...string) *commandHost {
	t.Helper()
	return connectCommand(t, h.command(t, append([]string{"mcp"}, arguments...)...))
}

func connectCommand(t *testing.T, cmd *exec.Cmd) *commandHost {
	t.Helper()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return &commandHost{session, t, cmd}
}

// tool calls a tool and returns its structured content, and the code of a refusal.
func (h *commandHost) tool(name string, arguments map[string]any) (content any, code string) {
	h.t.Helper()
	got, err := h.CallTool(h.t.Context(), &sdk.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		h.t.Fatalf("%s: %v", name, err)
	}
	code, _ = member(got.StructuredContent, "error", "code").(string)
	return got.StructuredContent, code
}

// newSeed writes the seed of a new key as --key-file reads it, and returns the file and the DID.
func newSeed(t *testing.T) (path, did string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(path, []byte(hex.EncodeToString(private.Seed())+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, string(identity.KeyDID(public))
}

// A host repeats a step with its key after the command was killed, and finds the step on disk.
func TestMCPCommandFilesASignedStepOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[limits]\n"+anyAddress)
	h.start(t)
	scholar := logIn(t, h.url())
	seed, _ := newSeed(t)
	offer := map[string]any{
		"to": string(scholar.did), "title": "Cite three", "context": map[string]any{"text": strings.Repeat("x", 3000)}, "idempotency_key": "k1",
	}
	host := newCommandHost(t, h, "--key-file", seed)
	first, code := host.tool("handoff_offer", offer)
	id, _ := member(first, "id").(string)
	if id == "" {
		t.Fatalf("the offer is refused: %s %v", code, first)
	}
	if err := host.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	again := newCommandHost(t, h, "--key-file", seed)
	if got, _ := again.tool("handoff_offer", offer); member(got, "event_id") != member(first, "event_id") {
		t.Errorf("after the kill the offer is %v, before %v", got, first)
	}
	offer["title"] = "Cite four"
	if _, code := again.tool("handoff_offer", offer); code != "idempotency-conflict" {
		t.Errorf("another offer with the key is answered %q", code)
	}
	cancel := map[string]any{"id": id, "note": "done already", "idempotency_key": "k2"}
	for range 2 {
		if got, code := again.tool("handoff_cancel", cancel); code != "" || member(got, "state") != "cancelled" {
			t.Errorf("the cancel is answered %s %v", code, got)
		}
	}
	var shown shownHandoff
	h.asks(t, &shown, "handoff", "show", id)
	if len(shown.Steps) != 2 || shown.Steps[0].Provenance != "signed" {
		t.Errorf("the handoff has %+v", shown.Steps)
	}
	var inbox struct{ Items []json.RawMessage }
	scholar.must(t, http.StatusOK, http.MethodGet, "inbox", nil, &inbox)
	if len(inbox.Items) != 2 {
		t.Errorf("%d steps arrived, want 2", len(inbox.Items))
	}
}

func TestMCPCommandReportsStartErrors(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	seed, did := newSeed(t)
	ends := func(want int, arguments ...string) {
		t.Helper()
		cmd := h.command(t, append([]string{"mcp"}, arguments...)...)
		var stdout, stderr strings.Builder
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(""), &stdout, &stderr
		code := 0
		if exit, ok := errors.AsType[*exec.ExitError](cmd.Run()); ok {
			code = exit.ExitCode()
		}
		lines := 1
		if want == 0 {
			lines = 0
		}
		if code != want || stdout.Len() > 0 || strings.Count(stderr.String(), "\n") != lines {
			t.Errorf("%q ends with %d, %q, %q; want %d and %d line", arguments, code, stdout.String(), stderr.String(), want, lines)
		}
	}
	ends(4, "--key-file", seed)
	ends(2)
	h.start(t)
	ends(3, "--as", did)
	ends(2, "--as", "did:key:z6MkOther", "--key-file", seed)
	ends(0, "--key-file", seed)
}

// Half of all ECDSA signatures have the higher of the two valid values of s:
// JOSE allows either.
func TestMCPClientLogsInWithACurveKey(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[limits]\n"+anyAddress)
	h.start(t)
	key := newCurveKey(t)
	did := didOfCurveKey(t, key)
	for i := range 12 {
		assertion, err := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
			"iss": did, "sub": did, "aud": h.url(), "jti": strconv.Itoa(i), "exp": time.Now().Add(time.Minute).Unix(),
		}).SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		logInByAssertion(t, h.url(), assertion)
	}
}

// newCurveKey makes a key on P-256.
func newCurveKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// didOfCurveKey returns the did:key of a key on P-256.
func didOfCurveKey(t *testing.T, key *ecdsa.PrivateKey) string {
	t.Helper()
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	compressed := append([]byte{2 + point[64]&1}, point[1:33]...)
	return string(identity.PublicKeyDID(federation.PublicKey{Kind: federation.P256, Bytes: compressed}))
}

// logInByAssertion gets a token of OAuth.
func logInByAssertion(t *testing.T, at, assertion string) {
	t.Helper()
	form := url.Values{
		"grant_type": {"client_credentials"}, "client_assertion": {assertion},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at+"/oauth/token", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(answer.Body)
	if answer.Body.Close(); answer.StatusCode != http.StatusOK {
		t.Fatalf("the assertion is answered %s %s", answer.Status, text)
	}
}
