package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// hubCases are the requests of the voice protocol's client to a hub, and its
// reactions to answers.
type hubCases struct {
	Seen struct {
		Method, Path, Body string
		Headers            map[string]string
	} `json:"request_seen"`
	Cases []struct {
		Answers struct {
			Status int             `json:"status"`
			Body   json.RawMessage `json:"body"`
		} `json:"hub_answers"`
		Client struct {
			Path   string `json:"returns_path"`
			Raises string `json:"raises"`
		} `json:"client"`
	} `json:"cases"`
}

// clientTakes returns the handoff_id that the client reads from an answer, or the error that it
// raises.
func clientTakes(status int, body []byte) (id, raises string) {
	if status >= 300 {
		return "", "HTTPError"
	}
	var answer map[string]any
	if len(body) == 0 || json.Unmarshal(body, &answer) != nil {
		return "", "JSONDecodeError"
	}
	found, there := answer["handoff_id"]
	if answer["status"] == "rejected" || !there {
		return "", "RuntimeError"
	}
	return fmt.Sprint(found), ""
}

// The client of the voice protocol reacts to the hub's answers as the vectors say, and the hub can
// read its request.
func TestFilesHubMatchesItsClient(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("BATON_VECTORS")
	if dir == "" {
		t.Log("not run: BATON_VECTORS is unset")
		return
	}
	text, err := os.ReadFile(filepath.Join(dir, "voice", "hub-cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var vectors hubCases
	if err := json.Unmarshal(text, &vectors); err != nil || len(vectors.Cases) < 8 {
		t.Fatalf("%d cases, %v", len(vectors.Cases), err)
	}
	for i, c := range vectors.Cases {
		body := c.Answers.Body
		if bytes.Equal(body, []byte("null")) {
			body = nil
		}
		if id, raises := clientTakes(c.Answers.Status, body); id != c.Client.Path || raises != c.Client.Raises {
			t.Errorf("case %d: the client takes %q, %q, want %q, %q", i, id, raises, c.Client.Path, c.Client.Raises)
		}
	}

	h := newFilesHouse(t)
	good := voicePayload(voiceSecret, "bob", "alice", "case", time.Hour, map[string]any{"handoff_id": "case-1"})
	for name, tt := range map[string]struct {
		body       []byte
		id, raises string
	}{
		"a handoff":           {good, "case-1", ""},
		"the same one again":  {good, "case-1", ""},
		"the one of the file": {[]byte(vectors.Seen.Body), "", "HTTPError"}, // it expired, and its secret is another one
		"a forged one":        {voicePayload("a secret of mallory", "bob", "alice", "case", time.Hour, nil), "", "HTTPError"},
	} {
		status, answer := h.hubLike(t, vectors, tt.body)
		if id, raises := clientTakes(status, []byte(answer)); id != tt.id || raises != tt.raises {
			t.Errorf("%s is answered %d %s: the client takes %q, %q", name, status, answer, id, raises)
		}
	}
	other := voicePayload(voiceSecret, "bob", "alice", "other", time.Hour, map[string]any{"handoff_id": "case-1"})
	if status, answer := h.hubLike(t, vectors, other); status != http.StatusConflict {
		t.Errorf("another handoff with the handoff_id is answered %d %s", status, answer)
	}
}

// hubLike sends a body to the hub as the client did: by its method and path, with its headers.
func (h *filesHouse) hubLike(t *testing.T, vectors hubCases, body []byte) (int, string) {
	t.Helper()
	_, path, found := strings.Cut(vectors.Seen.Path, "/api/v1/handoffs/")
	if !found {
		t.Fatalf("the client asks %s", vectors.Seen.Path)
	}
	r, err := http.NewRequestWithContext(t.Context(), vectors.Seen.Method, h.url()+"/api/v1/handoffs/"+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range vectors.Seen.Headers {
		if name != "content-length" && name != "authorization" {
			r.Header.Set(name, value)
		}
	}
	r.Header.Set("Authorization", "Bearer the hub token of bob")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer bytes.Buffer
	if _, err := answer.ReadFrom(response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, answer.String()
}
