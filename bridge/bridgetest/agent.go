package bridgetest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gowebpki/jcs"
)

// agentTimeout bounds one request. Registries may hold a request for up to a minute.
const agentTimeout = 70 * time.Second

const maxAgentAnswerBytes = 64 << 20

// Agent is a client of an AIRC registry. It shares no code with the registry here, so that the two
// check each other. Its fields may be changed between calls. It is not safe for concurrent use.
//
// spec: airc-v0.1.1 §5-§7
type Agent struct {
	URL    string // of the registry, without a path
	Handle string
	// Key signs messages, and KeyID is their "kid".
	Key   ed25519.PrivateKey
	KeyID string
	// Capabilities and Metadata are registered unless nil.
	Capabilities, Metadata any
	// Transport sends requests; nil means the default of net/http.
	Transport http.RoundTripper

	// Set by the registration.
	DID, Domain   string
	Token         string
	RefreshToken  string
	RegistryKey   ed25519.PublicKey
	RegistryKeyID string
}

// NewAgent returns an unregistered agent whose key is derived from 32 bytes.
func NewAgent(baseURL, handle string, seed []byte) *Agent {
	key := ed25519.NewKeyFromSeed(seed)
	sum := sha256.Sum256(key[ed25519.PublicKeySize:])
	return &Agent{Handle: handle, Key: key, KeyID: "k_" + hex.EncodeToString(sum[:8]), URL: baseURL}
}

// Register registers the agent with a proof that names the registry, or gets new tokens for a
// registered agent.
func (a *Agent) Register(ctx context.Context) error {
	status, answer, err := a.Call(ctx, http.MethodGet, "/.well-known/airc/registry.json", nil)
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("read the registry's key: status %d, %v: %w", status, answer, err)
	}
	a.Domain, _ = answer["domain"].(string)
	a.RegistryKeyID, _ = answer["kid"].(string)
	text, _ := answer["publicKey"].(string)
	if a.RegistryKey, err = base64.RawURLEncoding.DecodeString(text); err != nil {
		return fmt.Errorf("read the registry's key: %w", err)
	}
	challenge, err := a.Challenge(ctx)
	if err != nil {
		return err
	}
	body, err := a.BoundRegistration(challenge)
	if err != nil {
		return err
	}
	return a.Enter(ctx, body)
}

// Challenge returns a challenge for the handle.
func (a *Agent) Challenge(ctx context.Context) (string, error) {
	status, answer, err := a.Call(ctx, http.MethodPost, "/register/challenge", map[string]any{"handle": a.Handle})
	if err != nil || status != http.StatusOK {
		return "", fmt.Errorf("ask for a challenge: status %d, %v: %w", status, answer, err)
	}
	challenge, _ := answer["challenge"].(string)
	return challenge, nil
}

// Enter sends a registration and stores the returned tokens.
func (a *Agent) Enter(ctx context.Context, registration map[string]any) error {
	status, answer, err := a.Call(ctx, http.MethodPost, "/register", registration)
	if err != nil || status != http.StatusCreated && status != http.StatusOK {
		return fmt.Errorf("register: status %d, %v: %w", status, answer, err)
	}
	a.DID, _ = answer["did"].(string)
	a.Domain, _ = answer["domain"].(string)
	a.Token, _ = answer["accessToken"].(string)
	a.RefreshToken, _ = answer["refreshToken"].(string)
	return nil
}

// RegisterBare registers the agent as in the specification: the signature covers only the
// challenge, and does not name the registry.
func (a *Agent) RegisterBare(ctx context.Context) error {
	challenge, err := a.Challenge(ctx)
	if err != nil {
		return err
	}
	return a.Enter(ctx, a.Registration(challenge))
}

// BoundRegistration returns a registration whose signature covers the challenge and names the
// registry.
func (a *Agent) BoundRegistration(challenge string) (map[string]any, error) {
	body := a.Registration(challenge)
	err := a.Bind(body, "register", "challengeSignature", a.Key, "challenge", "publicKey")
	return body, err
}

// Bind adds aud, purpose, timestamp and handle to a request, and a signature over these and the
// covered members.
func (a *Agent) Bind(body map[string]any, purpose, signature string, key ed25519.PrivateKey, covered ...string) error {
	body["aud"], body["purpose"], body["timestamp"], body["handle"] = a.Domain, purpose, time.Now().Unix(), a.Handle
	signed := map[string]any{}
	for _, name := range append(covered, "aud", "purpose", "timestamp", "handle") {
		signed[name] = body[name]
	}
	document, err := canonical(signed)
	if err != nil {
		return err
	}
	body[signature] = base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, document))
	return nil
}

// Refresh exchanges the refresh token for new tokens.
func (a *Agent) Refresh(ctx context.Context) (status int, answer map[string]any, err error) {
	access := a.Token
	a.Token = a.RefreshToken
	status, answer, err = a.Call(ctx, http.MethodPost, "/auth/refresh", nil)
	a.Token = access
	if err == nil && status == http.StatusOK {
		a.Token, _ = answer["accessToken"].(string)
		a.RefreshToken, _ = answer["refreshToken"].(string)
	}
	return status, answer, err
}

// Registration returns the body that answers a challenge.
func (a *Agent) Registration(challenge string) map[string]any {
	body := map[string]any{
		"handle":             a.Handle,
		"publicKey":          base64.RawURLEncoding.EncodeToString(a.Key[ed25519.PublicKeySize:]),
		"challenge":          challenge,
		"challengeSignature": base64.RawURLEncoding.EncodeToString(ed25519.Sign(a.Key, []byte(challenge))),
	}
	if a.Capabilities != nil {
		body["capabilities"] = a.Capabilities
	}
	if a.Metadata != nil {
		body["metadata"] = a.Metadata
	}
	return body
}

// Envelope returns an unsigned message, without a payload if it is nil.
func (a *Agent) Envelope(to, body string, payload any) map[string]any {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	envelope := map[string]any{
		"v": "0.1", "id": base64.RawURLEncoding.EncodeToString(id), "kid": a.KeyID, "aud": a.Domain,
		"from": a.Handle, "to": to, "timestamp": time.Now().Unix(), "body": body,
	}
	if payload != nil {
		envelope["payload"] = payload
	}
	return envelope
}

// Sign returns a signed envelope as JSON.
func (a *Agent) Sign(envelope map[string]any) ([]byte, error) {
	document, err := canonical(envelope)
	if err != nil {
		return nil, err
	}
	signed := maps.Clone(envelope)
	signed["signature"] = base64.RawURLEncoding.EncodeToString(ed25519.Sign(a.Key, document))
	text, err := json.Marshal(signed)
	if err != nil {
		return nil, fmt.Errorf("write envelope: %w", err)
	}
	return text, nil
}

// Post sends a message unchanged.
func (a *Agent) Post(ctx context.Context, message []byte) (status int, answer map[string]any, err error) {
	return a.Call(ctx, http.MethodPost, "/messages", json.RawMessage(message))
}

// Send creates, signs and sends one message.
func (a *Agent) Send(ctx context.Context, to, body string, payload any) (status int, answer map[string]any, err error) {
	message, err := a.Sign(a.Envelope(to, body, payload))
	if err != nil {
		return 0, nil, err
	}
	return a.Post(ctx, message)
}

// Inbox returns the messages after a cursor, unchanged, and the next cursor.
func (a *Agent) Inbox(ctx context.Context, cursor string) (messages []json.RawMessage, next string, err error) {
	return a.Await(ctx, cursor, 0)
}

// Await is like Inbox, but the registry waits up to the given number of seconds if the inbox is
// empty.
func (a *Agent) Await(ctx context.Context, cursor string, seconds int) (messages []json.RawMessage, next string, err error) {
	query := url.Values{"cursor": {cursor}}
	if seconds > 0 {
		query.Set("wait", strconv.Itoa(seconds))
	}
	status, text, err := a.Do(ctx, http.MethodGet, "/messages/inbox?"+query.Encode(), nil)
	if err != nil || status != http.StatusOK {
		return nil, "", fmt.Errorf("read inbox: status %d, %s: %w", status, text, err)
	}
	var page struct {
		Messages   []json.RawMessage `json:"messages"`
		NextCursor string            `json:"nextCursor"`
	}
	if err := json.Unmarshal(text, &page); err != nil {
		return nil, "", fmt.Errorf("read inbox: %w", err)
	}
	return page.Messages, page.NextCursor, nil
}

// Consent accepts or blocks a handle.
func (a *Agent) Consent(ctx context.Context, handle, action string) (status int, answer map[string]any, err error) {
	return a.Call(ctx, http.MethodPost, "/consent", map[string]any{"handle": handle, "action": action})
}

// Identity requests the identity of a handle or a DID.
func (a *Agent) Identity(ctx context.Context, handle string) (status int, answer map[string]any, err error) {
	return a.Call(ctx, http.MethodGet, "/identity/"+url.PathEscape(handle), nil)
}

// Verify returns an error unless the registry signed the message.
func (a *Agent) Verify(message []byte) error {
	var members map[string]any
	if err := json.Unmarshal(message, &members); err != nil {
		return fmt.Errorf("read message: %w", err)
	}
	if members["kid"] != a.RegistryKeyID {
		return fmt.Errorf("verify message: kid is %v, not %s", members["kid"], a.RegistryKeyID)
	}
	text, _ := members["signature"].(string)
	sig, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return fmt.Errorf("verify message: %w", err)
	}
	delete(members, "signature")
	delete(members, "seq")
	document, err := canonical(members)
	if err != nil {
		return err
	}
	if !ed25519.Verify(a.RegistryKey, document, sig) {
		return errors.New("verify message: the signature does not match")
	}
	return nil
}

// Call sends one request with an optional JSON body, and returns the JSON object of the answer.
func (a *Agent) Call(ctx context.Context, method, path string, body any) (status int, answer map[string]any, err error) {
	var text []byte
	if raw, ok := body.(json.RawMessage); ok {
		text = raw
	} else if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return 0, nil, fmt.Errorf("write %s %s: %w", method, path, err)
		}
	}
	status, got, err := a.Do(ctx, method, path, text)
	if err != nil {
		return status, nil, err
	}
	if err := json.Unmarshal(got, &answer); err != nil {
		return status, nil, fmt.Errorf("read answer of %s %s: %w", method, path, err)
	}
	return status, answer, nil
}

// Do sends one request with the agent's token and returns the complete answer.
func (a *Agent) Do(ctx context.Context, method, path string, body []byte) (status int, answer []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, a.URL+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, fmt.Errorf("write %s %s: %w", method, path, err)
	}
	request.Header.Set("Content-Type", "application/json")
	if a.Token != "" {
		request.Header.Set("Authorization", "Bearer "+a.Token)
	}
	client := &http.Client{Transport: a.Transport, Timeout: agentTimeout}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, fmt.Errorf("send %s %s: %w", method, path, err)
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	answer, err = io.ReadAll(io.LimitReader(response.Body, maxAgentAnswerBytes))
	if err != nil {
		return response.StatusCode, nil, fmt.Errorf("read answer of %s %s: %w", method, path, err)
	}
	return response.StatusCode, answer, nil
}

func canonical(members map[string]any) ([]byte, error) {
	text, err := json.Marshal(members)
	if err != nil {
		return nil, fmt.Errorf("write envelope: %w", err)
	}
	document, err := jcs.Transform(text)
	if err != nil {
		return nil, fmt.Errorf("write envelope: %w", err)
	}
	return document, nil
}
