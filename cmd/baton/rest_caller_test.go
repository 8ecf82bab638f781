package main_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

// caller is a client over plain HTTP, with a token for a did:key.
type caller struct {
	url, token string
	did        federation.DID
	key        federation.SigningKey
}

// logIn proves a new DID.
func logIn(tb testing.TB, url string) *caller {
	tb.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return logInWith(tb, url, private)
}

func logInWith(tb testing.TB, url string, private ed25519.PrivateKey) *caller {
	tb.Helper()
	public, _ := private.Public().(ed25519.PublicKey)
	c := &caller{url: url, did: identity.KeyDID(public)}
	c.key = federation.SigningKey{Public: public, DID: c.did, Sign: func(_ context.Context, message []byte) ([]byte, error) {
		return ed25519.Sign(private, message), nil
	}}
	c.logInAgain(tb)
	return c
}

// logInAgain begins another session of a caller.
func (c *caller) logInAgain(tb testing.TB) {
	tb.Helper()
	c.token = ""
	var given struct{ Challenge string }
	c.must(tb, http.StatusOK, http.MethodPost, "auth/challenge", map[string]any{"did": c.did}, &given)
	var tokens struct {
		Access string `json:"access_token"`
	}
	signed, err := c.key.Sign(tb.Context(), []byte(given.Challenge))
	if err != nil {
		tb.Fatal(err)
	}
	signature := base64.RawURLEncoding.EncodeToString(signed)
	c.must(tb, http.StatusOK, http.MethodPost, "auth/token", map[string]any{"did": c.did, "challenge": given.Challenge, "signature": signature}, &tokens)
	c.token = tokens.Access
}

// request returns a request below /api/v1. A body of nil is none.
func (c *caller) request(tb testing.TB, method, path string, body any) *http.Request {
	tb.Helper()
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			tb.Fatal(err)
		}
		sent = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(context.WithoutCancel(tb.Context()), method, c.url+"/api/v1/"+path, sent)
	if err != nil {
		tb.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	return r
}

// must sends a request, which is to be answered with a status, and reads the answer.
func (c *caller) must(tb testing.TB, status int, method, path string, body, into any) {
	tb.Helper()
	response, err := http.DefaultClient.Do(c.request(tb, method, path, body))
	if err != nil {
		tb.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != status {
		tb.Fatalf("%s %s is answered %d %s, %v; want %d", method, path, response.StatusCode, text, err, status)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(text, into); err != nil {
		tb.Fatalf("%s %s is answered %s: %v", method, path, text, err)
	}
}

// offer offers something and returns its id.
func (c *caller) offer(tb testing.TB, body map[string]any) string {
	tb.Helper()
	var at struct{ ID string }
	c.must(tb, http.StatusCreated, http.MethodPost, "handoffs", body, &at)
	return at.ID
}

func (c *caller) step(tb testing.TB, id, verb string, body map[string]any) {
	tb.Helper()
	var sent any
	if body != nil {
		sent = body
	}
	c.must(tb, http.StatusCreated, http.MethodPost, "handoffs/"+id+"/"+verb, sent, nil)
}

// arrived is an entry of an inbox.
type arrived struct {
	Cursor string
	Step   struct {
		HandoffID  string `json:"handoff_id"`
		Verb       string
		From, For  string
		Title      string
		Note       string
		Context    string
		State      string
		Provenance string
	}
}

// reads returns the entries after a cursor, once there are any.
func (c *caller) reads(tb testing.TB, cursor string) []arrived {
	tb.Helper()
	var page struct{ Items []arrived }
	for range 10 {
		c.must(tb, http.StatusOK, http.MethodGet, fmt.Sprintf("inbox?wait=10s&cursor=%s", cursor), nil, &page)
		if len(page.Items) > 0 {
			break
		}
	}
	return page.Items
}

// hears waits for the message with a text in the inbox of a caller, and returns it.
func (c *caller) hears(t *testing.T, text string) map[string]any {
	t.Helper()
	var found map[string]any
	await(t, "the caller to read "+text, func() bool {
		var page struct {
			Items []struct {
				Type    string
				Message map[string]any
			}
		}
		c.must(t, http.StatusOK, http.MethodGet, "inbox", nil, &page)
		for _, e := range page.Items {
			if e.Type == "message" && e.Message["text"] == text {
				found = e.Message
			}
		}
		return found != nil
	})
	return found
}
