package main_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// served is an answer with its body.
type served struct {
	status int
	header http.Header
	length int64 // as the header says it
	body   string
}

// fetch asks for a part of a stored context, or for all of it.
func fetch(t *testing.T, method, address, part string) served {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if part != "" {
		request.Header.Set("Range", part)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return served{response.StatusCode, response.Header, response.ContentLength, string(text)}
}

func TestContextIsServedByItsName(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[limits]\ncontext_bytes = 1000\ncontext_bytes_per_did = 1500\n")
	h.start(t)
	h.ready(t)
	agent := bridgetest.NewAgent(h.url(), "scout_7", make([]byte, 32))
	if err := agent.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.secrets = append(h.secrets, agent.Token)
	content := "<script>alert(1)</script>" + strings.Repeat("x", 900)
	status, answer := upload(t, agent, content)
	if status != http.StatusCreated {
		t.Fatal(status, answer)
	}
	sum := sha256.Sum256([]byte(content))
	if answer.SHA256 != hex.EncodeToString(sum[:]) || !strings.HasPrefix(answer.URL, h.url()+"/blob/cap/") || len(answer.URL) != len(h.url()+"/blob/cap/")+22 {
		t.Errorf("answered %+v", answer)
	}
	h.secrets = append(h.secrets, answer.URL[len(answer.URL)-22:]) // the capability is in no log, at the debug level either
	h.kill(t)
	h.start(t)
	for part, want := range map[string]struct {
		status int
		body   string
	}{"": {200, content}, "bytes=8-12": {206, content[8:13]}, "bytes=-5": {206, "xxxxx"}, "bytes=5000-": {416, ""}} {
		got := fetch(t, http.MethodGet, answer.URL, part)
		if got.status != want.status || want.body != "" && got.body != want.body {
			t.Errorf("%q: %d, %d bytes", part, got.status, len(got.body))
		}
		if want.status == http.StatusRequestedRangeNotSatisfiable {
			continue
		}
		for name, value := range map[string]string{
			"Content-Disposition": "attachment", "X-Content-Type-Options": "nosniff", "Content-Type": "application/octet-stream", "Accept-Ranges": "bytes",
		} {
			if had := got.header.Get(name); had != value {
				t.Errorf("%q: %s is %q, want %q", part, name, had, value)
			}
		}
	}
	if got := fetch(t, http.MethodHead, answer.URL, ""); got.status != http.StatusOK || got.body != "" || got.length != int64(len(content)) {
		t.Errorf("HEAD: %d, length %d", got.status, got.length)
	}
	for _, name := range []string{strings.Repeat("A", 22), "A", answer.URL[len(answer.URL)-22:] + "/x"} {
		if got := fetch(t, http.MethodGet, h.url()+"/blob/cap/"+name, ""); got.status != http.StatusNotFound {
			t.Errorf("%s: %d, want 404", name, got.status)
		}
	}
	for size, want := range map[int]int{1001: http.StatusRequestEntityTooLarge, 1000: http.StatusTooManyRequests} {
		if status, answer := upload(t, agent, strings.Repeat("y", size)); status != want {
			t.Errorf("%d bytes more: %d %+v, want %d", size, status, answer, want)
		}
	}
}

type uploaded struct {
	URL, SHA256, Error string
	ExpiresAt          int64
}

// upload hands in a context as an agent.
func upload(t *testing.T, agent *bridgetest.Agent, content string) (status int, answer uploaded) {
	t.Helper()
	status, text, err := agent.Do(t.Context(), http.MethodPost, "/blob", []byte(content))
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return status, answer
}

func TestContextOfAnOperatorIsAFile(t *testing.T) {
	t.Parallel()
	v := newVillage(t)
	for name, content := range map[string]string{
		"small.json": `{ "q": "X" }`, "large.json": `["` + strings.Repeat("x", 6000) + `"]`, "any.bin": "\x00\xff" + strings.Repeat("z", 1<<20-2),
	} {
		file := filepath.Join(v.dir, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		var filed struct{ ID string }
		v.asks(t, &filed, "handoff", "offer", "--from", ann, "--open", "--title", "Read it", "--context", file)
		offer := v.sees(t, "the offer with "+name, isStep("offer", filed.ID))
		checkContext(t, name, offer.Tags, content)
		v.asks(t, &filed, "handoff", "cancel", filed.ID, "--from", ann)
	}
	seed := filepath.Join(v.dir, "seed")
	if err := os.WriteFile(seed, fmt.Appendf(nil, "%064x", 7), 0o600); err != nil {
		t.Fatal(err)
	}
	var filed struct{ ID string }
	v.asks(t, &filed, "handoff", "offer", "--key-file", seed, "--open", "--title", "Read it", "--context", filepath.Join(v.dir, "large.json"))
	offer := v.sees(t, "the offer that was signed", isStep("offer", filed.ID))
	checkContext(t, "signed", offer.Tags, `["`+strings.Repeat("x", 6000)+`"]`)
	if offer.Tags["+freeq.at/handoff-src"] != "" {
		t.Error("what was signed is not what was written")
	}
}

// checkContext holds the tags of a step to a context: they have it, or the address and
// the hash of it.
func checkContext(t *testing.T, name string, tags map[string]string, content string) {
	t.Helper()
	context := tags["+freeq.at/handoff-context"]
	if strings.HasPrefix(context, "{") {
		var short bytes.Buffer
		if err := json.Compact(&short, []byte(content)); err != nil || context != short.String() {
			t.Errorf("%s: the context is %q", name, context)
		}
		return
	}
	sum := sha256.Sum256([]byte(content))
	if got := tags["+freeq.at/handoff-context-h"]; got != "sha256:"+hex.EncodeToString(sum[:]) {
		t.Errorf("%s: the hash is %q", name, got)
	}
	if got := fetch(t, http.MethodGet, context, ""); got.status != http.StatusOK || got.body != content {
		t.Errorf("%s: %s answers %d, %d bytes", name, context, got.status, len(got.body))
	}
}
