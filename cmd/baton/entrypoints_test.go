package main_test

import (
	"bufio"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gowebpki/jcs"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/identity"
)

// claim is a key as presented by a party, with its signatures.
type claim struct {
	did    federation.DID // the did:key
	public []byte
	sign   func(message []byte) []byte
	// revoked says that the key was revoked for its did:key.
	revoked bool
	// useless says that the key cannot be an identity.
	useless bool
}

func (c claim) base64() string { return base64.RawURLEncoding.EncodeToString(c.public) }

func (c claim) signature(message []byte) string {
	return base64.RawURLEncoding.EncodeToString(c.sign(message))
}

// document returns the signature over the canonical form of a document.
func (c claim) document(t *testing.T, document map[string]any) string {
	t.Helper()
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	if text, err = jcs.Transform(text); err != nil {
		t.Fatal(err)
	}
	return c.signature(text)
}

// admission is the outcome of a claim: the entry point took the key, and its signatures
// count as the DID's.
type admission struct{ taken, counts bool }

// keyLie is one way to present a key. The claims of a lie are made for each entry point.
type keyLie struct {
	name string
	make func(t *testing.T, e *entrances) []claim
	want func(entry) admission
}

func claimOf(o owner, signer ed25519.PrivateKey) claim {
	return claim{did: o.did, public: o.private[ed25519.SeedSize:], sign: func(m []byte) []byte { return ed25519.Sign(signer, m) }}
}

// asIdentity returns a key that encodes the identity of the curve. A signature with the
// identity as R and zero as S verifies under it for each message.
func asIdentity(encoding []byte) claim {
	r := append([]byte{1}, make([]byte, 63)...)
	return claim{did: identity.KeyDID(encoding), public: encoding, sign: func([]byte) []byte { return r }, useless: true}
}

func keyLies() []keyLie {
	nothing := func(entry) admission { return admission{} }
	names := func(e entry) admission { return admission{taken: e.names} }
	return []keyLie{
		{"proved", func(t *testing.T, _ *entrances) []claim {
			t.Helper()
			o := newOwner(t)
			return []claim{claimOf(o, o.private)}
		}, func(e entry) admission { return admission{taken: true, counts: !e.provesNothing} }},
		{"unproved", func(t *testing.T, _ *entrances) []claim {
			t.Helper()
			return []claim{claimOf(newOwner(t), newOwner(t).private)}
		}, names},
		{"another party's", func(t *testing.T, e *entrances) []claim {
			t.Helper()
			bob := newOwner(t)
			bob.logIn(t, e.house)
			return []claim{claimOf(bob, newOwner(t).private)}
		}, names},
		{"small order", func(*testing.T, *entrances) []claim {
			return []claim{asIdentity(append([]byte{1}, make([]byte, 31)...))}
		}, nothing},
		{"non-canonical", func(*testing.T, *entrances) []claim {
			signed := append([]byte{1}, make([]byte, 31)...)
			signed[31] = 0x80 // x = 0 has no sign
			beyond := append([]byte{0xee}, slices.Repeat([]byte{0xff}, 31)...)
			beyond[31] = 0x7f // y = p + 1
			return []claim{asIdentity(signed), asIdentity(beyond)}
		}, nothing},
		{"revoked", func(t *testing.T, e *entrances) []claim {
			t.Helper()
			o := newOwner(t)
			e.revoke(t, o)
			c := claimOf(o, o.private)
			c.revoked = true
			return []claim{c}
		}, names},
	}
}

// entry is one entry point for keys.
type entry struct {
	name  string
	names bool // takes a key without a proof, which then counts for no DID
	// provesNothing says that not even the owner of a key gets its DID here.
	provesNothing bool
	// parsers are the files in which the keys of this entry point are parsed.
	parsers []string
	present func(t *testing.T, e *entrances, c claim) admission
	// without names the lies that cannot be told here, with the reason.
	without map[string]string
}

// entrances is a gateway with all its entry points.
type entrances struct {
	*house
	irc      string
	handles  int
	registry map[string]*registryPeer // by domain, not claimed yet
}

// registryPeer is another AIRC registry, whose key is set before it is asked.
type registryPeer struct{ public string }

func newEntrances(t *testing.T) *entrances {
	t.Helper()
	e := &entrances{irc: federationtest.FreeAddr(t), registry: map[string]*registryPeer{}}
	tables := []string{
		fmt.Sprintf("[irc.client]\nlisten = %q\n", e.irc), "[limits]\nregistrations_per_hour = 0\ndid_events_per_minute = 0\n" + anyAddress,
		"[fetch]\nallow_private = true\n", "[airc]\ndomain = \"gw.test\"\n",
	}
	for n := range 7 {
		domain, peer := fmt.Sprintf("peer%d.test", n), &registryPeer{}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(map[string]any{"protocol": "airc", "protocol_version": "0.2", "public_key": peer.public})
		}))
		t.Cleanup(server.Close)
		e.registry[domain] = peer
		tables = append(tables, fmt.Sprintf("[[airc.peers]]\ndomain = %q\nurl = %q\n", domain, server.URL))
	}
	e.house = newHouse(t, tables...)
	e.start(t)
	e.ready(t)
	return e
}

func (e *entrances) handle() string {
	e.handles++
	return fmt.Sprintf("agent_%d", e.handles)
}

// revoke registers the owner of a key and revokes the key.
func (e *entrances) revoke(t *testing.T, o owner) {
	t.Helper()
	a := o.agent(e.house, e.handle())
	if err := a.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	calls(t, a, http.StatusOK, http.MethodPost, "/identity/revoke", o.sign(t, map[string]any{"kid": a.KeyID, "reason": "lost"}))
}

func (e *entrances) knownAs(t *testing.T, handle string, did federation.DID) bool {
	t.Helper()
	a := bridgetest.NewAgent(e.url(), handle, make([]byte, 32))
	known, _ := calls(t, a, http.StatusOK, http.MethodGet, "/identity/"+handle, nil)["alsoKnownAs"].([]any)
	return slices.Contains(known, any(string(did)))
}

// entryPoints is the closed list of them.
func entryPoints() []entry {
	const ofAIRC = "bridge/airc/wire/identity.go"
	isRegistry := map[string]string{"revoked": "the key of a registry has no end of its own: its document names the one that is good"}
	return []entry{
		{name: "REST login", parsers: []string{"federation/identity/publickey.go"}, present: viaREST},
		{name: "IRC SASL", parsers: []string{"federation/identity/publickey.go"}, present: viaSASL},
		{name: "IRC MSGSIG", names: true, parsers: []string{"bridge/irc/client/sasl.go"}, present: viaMSGSIG},
		{name: "AIRC D1 register", parsers: []string{ofAIRC}, present: viaRegister},
		{name: "AIRC D1 rotate", parsers: []string{ofAIRC}, names: true, provesNothing: true, present: func(t *testing.T, e *entrances, c claim) admission {
			t.Helper()
			o, _ := viaRotation(t, e, c, false)
			return o
		}},
		{name: "AIRC D1 rotate with newKeySignature", parsers: []string{ofAIRC}, present: func(t *testing.T, e *entrances, c claim) admission {
			t.Helper()
			o, _ := viaRotation(t, e, c, true)
			return o
		}},
		{name: "AIRC D1 envelope", parsers: []string{ofAIRC}, names: true, present: viaEnvelope},
		{name: "AIRC D2 registry key", parsers: []string{ofAIRC}, names: true, present: viaRelay, without: isRegistry},
		{name: "AIRC D3 presence", parsers: []string{ofAIRC}, names: true, provesNothing: true, present: viaPresence},
		{name: "AIRC D3 rotate", parsers: []string{ofAIRC}, names: true, provesNothing: true, present: viaDeployedRotation},
		{name: "recovery", provesNothing: true, present: viaRecovery, without: map[string]string{"proved": "there is no recovery of a handle"}},
		{name: "freeq key API", parsers: []string{"federation/identity/peerclient.go"}, names: true, present: viaKeyAPI},
		{name: "freeq endpoint", parsers: []string{"bridge/irc/freeq/envelope.go"}, names: true, provesNothing: true, present: viaEndpoint},
		{name: "other homes", parsers: []string{"federation/identity/publickey.go"}, names: true, present: viaHome},
		{name: "bindings", parsers: []string{"federation/identity/publickey.go"}, names: true, provesNothing: true, present: viaBinding},
		{name: "did:web document, Multikey", parsers: []string{"federation/identity/publickey.go"}, names: true, present: viaMultikey},
		{name: "did:web document, JWK", parsers: []string{"federation/identity/document.go"}, names: true, present: viaJWK},
		{name: "did:plc document", parsers: []string{"federation/identity/publickey.go"}, names: true, present: viaPLC},
		{name: "signed step", parsers: []string{"federation/identity/publickey.go"}, present: viaStep},
		{name: "passport", parsers: []string{"federation/passport/verify.go"}, names: true, provesNothing: true, present: viaPassport},
		{name: "card of an A2A agent", parsers: []string{"federation/identity/document.go"}, provesNothing: true, present: viaCard, without: map[string]string{
			"revoked": "the key of a card is no key of a DID",
		}},
		{name: "signer command", parsers: []string{"federation/identity/signer.go"}, names: true, provesNothing: true, present: viaSigner},
		{name: "record", parsers: []string{"federation/signing/verify.go"}, names: true, present: viaRecord, without: map[string]string{
			"revoked": "the verification of a signature knows no time: the source of keys does",
		}},
	}
}

// Each entry point takes no key that cannot be an identity, and gives no DID without a
// proof of its key.
func TestEntryPointsNeedAProofOfADID(t *testing.T) {
	t.Parallel()
	e := newEntrances(t)
	for _, entry := range entryPoints() {
		for _, lie := range keyLies() {
			if entry.without[lie.name] != "" {
				continue
			}
			t.Run(entry.name+": "+lie.name, func(t *testing.T) {
				for _, c := range lie.make(t, e) {
					got, want := entry.present(t, e, c), lie.want(entry)
					if got.counts != want.counts || got.taken && !want.taken || want.counts && !got.taken {
						t.Errorf("key %x: %+v, want %+v", c.public, got, want)
					}
				}
			})
		}
	}
}

// Each file that parses a key from outside belongs to an entry point with a row above.
func TestEntryPointsCoverEachKeyParser(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	for _, entry := range entryPoints() {
		for _, name := range entry.parsers {
			listed[name] = true
		}
	}
	if got, want := slices.Sorted(maps.Keys(parsersOfKeys(t))), slices.Sorted(maps.Keys(listed)); !slices.Equal(got, want) {
		t.Errorf("keys are parsed in\n%q, the rows name\n%q", got, want)
	}
}

// parsersOfKeys returns the files that call federation.ParsePublicKey.
func parsersOfKeys(t *testing.T) map[string]bool {
	t.Helper()
	root, found := filepath.Join("..", ".."), map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == "conform" { // its suites judge keys of other servers, and give no DID
			return filepath.SkipDir
		}
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if selector, ok := n.(*ast.SelectorExpr); ok && selector.Sel.Name == "ParsePublicKey" {
				if name, ok := selector.X.(*ast.Ident); ok && name.Name == "federation" {
					relative, _ := filepath.Rel(root, path) // both are relative
					found[filepath.ToSlash(relative)] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func viaREST(t *testing.T, e *entrances, c claim) admission {
	t.Helper()
	in := loginStatus(t, e.house, c.did, func(challenge string) []byte { return c.sign([]byte(challenge)) }) == http.StatusOK
	return admission{in, in}
}

// ircLogin connects a client that proves a DID, and returns its connection and the answer.
func ircLogin(t *testing.T, e *entrances, did federation.DID, sign func([]byte) []byte) (net.Conn, *bufio.Scanner, string) {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", e.irc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	lines := bufio.NewScanner(conn)
	fmt.Fprint(conn, "CAP LS 302\r\nNICK "+e.handle()+"\r\nUSER u 0 * :u\r\nCAP REQ :sasl standard-replies\r\nAUTHENTICATE ATPROTO-CHALLENGE\r\n")
	text := expect(t, lines, "AUTHENTICATE ")
	challenge, err := base64.RawURLEncoding.DecodeString(text[strings.LastIndexByte(text, ' ')+1:])
	if err != nil {
		t.Fatal(err)
	}
	proof, err := json.Marshal(map[string]string{"did": string(did), "signature": base64.RawURLEncoding.EncodeToString(sign(challenge))})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "AUTHENTICATE %s\r\n", base64.RawURLEncoding.EncodeToString(proof))
	return conn, lines, expect(t, lines, " 903 ", " 904 ")
}

// expect returns the next line with one of some texts.
func expect(t *testing.T, lines *bufio.Scanner, texts ...string) string {
	t.Helper()
	for lines.Scan() {
		for _, text := range texts {
			if strings.Contains(lines.Text(), text) {
				return lines.Text()
			}
		}
	}
	t.Fatalf("no line with %q: %v", texts, lines.Err())
	return ""
}

func viaSASL(t *testing.T, e *entrances, c claim) admission {
	t.Helper()
	conn, _, answer := ircLogin(t, e, c.did, c.sign)
	_ = conn.Close()
	in := strings.Contains(answer, " 903 ")
	return admission{in, in}
}

// viaMSGSIG registers the key for a DID of the caller's own. The key counts for its
// did:key if a login with it succeeds then.
func viaMSGSIG(t *testing.T, e *entrances, c claim) admission {
	t.Helper()
	own := newOwner(t)
	conn, lines, answer := ircLogin(t, e, own.did, func(m []byte) []byte { return ed25519.Sign(own.private, m) })
	if !strings.Contains(answer, " 903 ") {
		t.Fatalf("login: %s", answer)
	}
	fmt.Fprintf(conn, "CAP END\r\nMSGSIG %s\r\n", c.base64())
	taken := strings.Contains(expect(t, lines, "MSGSIG "), "MSGSIG OK")
	_ = conn.Close()
	return admission{taken, viaREST(t, e, c).counts}
}

func viaRegister(t *testing.T, e *entrances, c claim) admission {
	t.Helper()
	handle := e.handle()
	a := bridgetest.NewAgent(e.url(), handle, make([]byte, 32))
	given := calls(t, a, http.StatusOK, http.MethodPost, "/register/challenge", map[string]any{"handle": handle})
	body := map[string]any{
		"aud": given["aud"], "purpose": "register", "timestamp": time.Now().Unix(),
		"handle": handle, "publicKey": c.base64(), "challenge": given["challenge"],
	}
	body["challengeSignature"] = c.document(t, body)
	status, _, err := a.Call(t.Context(), http.MethodPost, "/register", body)
	if err != nil {
		t.Fatal(err)
	}
	taken := status == http.StatusCreated
	return admission{taken, taken && e.knownAs(t, handle, c.did)}
}

// viaRotation rotates the key of a new agent to the key.
func viaRotation(t *testing.T, e *entrances, c claim, proved bool) (admission, *bridgetest.Agent) {
	t.Helper()
	own := newOwner(t)
	a := own.agent(e.house, e.handle())
	if err := a.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	body := map[string]any{"newPublicKey": c.base64(), "newKid": "key_2"}
	if proved {
		body["aud"], body["purpose"], body["handle"], body["timestamp"] = a.Domain, "rotate", a.Handle, time.Now().Unix()
	}
	proof := c.document(t, body)
	own.sign(t, body)
	if proved {
		body["newKeySignature"] = proof
	}
	status, _, err := a.Call(t.Context(), http.MethodPost, "/identity/rotate", body)
	if err != nil {
		t.Fatal(err)
	}
	return admission{status == http.StatusOK, e.knownAs(t, a.Handle, c.did)}, a
}

// viaEnvelope names the key by a rotation and sends a message signed for it.
func viaEnvelope(t *testing.T, e *entrances, c claim) admission {
	t.Helper()
	named, a := viaRotation(t, e, c, false)
	if !named.taken {
		return named
	}
	envelope := a.Envelope(a.Handle, "hi", nil)
	envelope["kid"] = "key_2"
	envelope["signature"] = c.document(t, envelope)
	if _, _, err := a.Call(t.Context(), http.MethodPost, "/messages", envelope); err != nil {
		t.Fatal(err)
	}
	return admission{true, e.knownAs(t, a.Handle, c.did)}
}

// viaRelay is a registry whose well-known document has the key, and that signs a relay.
func viaRelay(t *testing.T, e *entrances, c claim) admission {
	t.Helper()
	own := newOwner(t)
	recipient := own.agent(e.house, e.handle())
	if err := recipient.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	domain := slices.Sorted(maps.Keys(e.registry))[0]
	e.registry[domain].public = c.base64()
	delete(e.registry, domain)
	relay := map[string]any{
		"origin_registry": domain, "from_address": "amy@" + domain, "from": "amy", "to": recipient.Handle, "to_address": recipient.Handle + "@gw.test",
		"message_id": "message-" + domain, "body": "hi", "timestamp": time.Now().Unix(), "payload": map[string]any{"type": "text", "content": "hi"},
	}
	raw, err := base64.RawURLEncoding.DecodeString(c.document(t, relay))
	if err != nil {
		t.Fatal(err)
	}
	relay["origin_registry_signature"] = "ed25519:" + base64.StdEncoding.EncodeToString(raw)
	status, _, err := recipient.Call(t.Context(), http.MethodPost, "/federation/relay", relay)
	if err != nil {
		t.Fatal(err)
	}
	in := status < http.StatusBadRequest
	return admission{in, in}
}

func viaPresence(t *testing.T, e *entrances, c claim) admission {
	t.Helper()
	handle := e.handle()
	a := bridgetest.NewAgent(e.url(), handle, make([]byte, 32))
	status, _, err := a.Call(t.Context(), http.MethodPost, "/api/presence", map[string]any{"action": "register", "username": handle, "publicKey": c.base64()})
	if err != nil {
		t.Fatal(err)
	}
	taken := status == http.StatusCreated
	return admission{taken, taken && e.knownAs(t, handle, c.did)}
}

func viaDeployedRotation(t *testing.T, e *entrances, c claim) admission {
	t.Helper()
	handle := e.handle()
	a := bridgetest.NewAgent(e.url(), handle, make([]byte, 32))
	a.Token, _ = calls(t, a, http.StatusCreated, http.MethodPost, "/api/presence", map[string]any{"action": "register", "username": handle})["token"].(string)
	status, _, err := a.Call(t.Context(), http.MethodPost, "/api/identity/"+handle+"/rotate", map[string]any{"publicKey": c.base64()})
	if err != nil {
		t.Fatal(err)
	}
	return admission{status == http.StatusOK, e.knownAs(t, handle, c.did)}
}

// viaRecovery asks for a handle by the paths that registries recover one under.
func viaRecovery(t *testing.T, e *entrances, c claim) admission {
	t.Helper()
	own := newOwner(t)
	a := own.agent(e.house, e.handle())
	if err := a.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got admission
	for _, path := range []string{"/identity/recover", "/api/identity/" + a.Handle + "/recover"} {
		status, _, err := a.Call(t.Context(), http.MethodPost, path, map[string]any{"handle": a.Handle, "newPublicKey": c.base64()})
		if err != nil {
			t.Fatal(err)
		}
		got.taken = got.taken || status < http.StatusBadRequest
	}
	got.counts = e.knownAs(t, a.Handle, c.did)
	return got
}
