package rest

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/baton-gateway/baton/federation"
)

// maxAnswerBytes bounds an answer. It is larger than a page of 500 entries.
const maxAnswerBytes = 16 << 20

type cast struct {
	api    string // base of all paths
	http   *http.Client
	keys   map[string]federation.SigningKey // of callers that can prove a DID, by name
	tokens map[string]string                // of callers that proved a DID, by name
	kept   map[string]string                // values of {name} in a line
}

func newCast(cfg Config) (*cast, error) {
	at, err := url.Parse(cfg.URL)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return nil, fmt.Errorf("%q is not an address: want http://HOST:PORT or https://HOST", cfg.URL)
	}
	c := &cast{
		api: strings.TrimSuffix(cfg.URL, "/") + "/api/v1", http: &http.Client{Timeout: patience},
		keys: map[string]federation.SigningKey{}, tokens: map[string]string{}, kept: map[string]string{"run": rand.Text()},
	}
	for _, name := range []string{Offerer, "scholar", "mallory"} {
		if c.keys[name], err = cfg.Key(name); err != nil {
			return nil, err
		}
		c.kept[name] = string(c.keys[name].DID)
	}
	return c, nil
}

type answer struct {
	status int
	header http.Header
	body   any // body of JSON; nil for none
}

func (c *cast) fill(text string) string {
	for name, value := range c.kept {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

// A line has the caller, the method, the path, headers, and a body.
func (c *cast) ask(ctx context.Context, line string) (answer, error) {
	words := strings.Fields(c.fill(line))
	if len(words) < 3 {
		return answer{}, fmt.Errorf("%q is no request", line)
	}
	header, body := http.Header{}, ""
	for _, word := range words[3:] {
		if strings.HasPrefix(word, "{") {
			body = strings.ReplaceAll(word, "~", " ")
			continue
		}
		name, value, _ := strings.Cut(word, ":")
		header.Set(name, value)
	}
	if err := c.login(ctx, words[0]); err != nil {
		return answer{}, err
	}
	return c.send(ctx, words[0], words[1], words[2], header, body)
}

func (c *cast) send(ctx context.Context, who, method, path string, header http.Header, body string) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.api+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for name := range header {
		r.Header.Set(name, header.Get(name))
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if token := c.tokens[who]; token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return answer{}, fmt.Errorf("read answer: %w", err)
	}
	got := answer{status: response.StatusCode, header: response.Header}
	if len(text) > 0 {
		if err := federation.DecodeJSON(text, &got.body); err != nil {
			return answer{}, fmt.Errorf("answered %d, and no JSON: %w", got.status, err)
		}
	}
	return got, nil
}

func (c *cast) login(ctx context.Context, name string) error {
	if name == stranger || c.tokens[name] != "" {
		return nil
	}
	key := c.keys[name]
	given, err := c.send(ctx, stranger, http.MethodPost, "/auth/challenge", nil, fmt.Sprintf(`{"did":%q}`, key.DID))
	if err != nil {
		return err
	}
	challenge := member(given.body, "challenge")
	signature, err := key.Sign(ctx, []byte(challenge[0]))
	if err != nil {
		return fmt.Errorf("sign challenge: %w", err)
	}
	proof := fmt.Sprintf(`{"did":%q,"challenge":%q,"signature":%q}`, key.DID, challenge[0], base64.RawURLEncoding.EncodeToString(signature))
	tokens, err := c.send(ctx, stranger, http.MethodPost, "/auth/token", nil, proof)
	if err != nil {
		return err
	}
	if c.tokens[name] = member(tokens.body, "access_token")[0]; c.tokens[name] == "" {
		return fmt.Errorf("the login of %s is answered %d: %v", name, tokens.status, tokens.body)
	}
	return nil
}

// expect compares an answer with a line: a status, then each on its own path=value, path>name to
// store a value, Header:value or Header>name.
func (c *cast) expect(got answer, line string) error {
	words := strings.Fields(line)
	if strconv.Itoa(got.status) != words[0] {
		return fmt.Errorf("answered %d %v, want %s", got.status, got.body, words[0])
	}
	for _, word := range words[1:] {
		end := strings.IndexAny(word, "=>:")
		name, want := word[:end], strings.ReplaceAll(c.fill(word[end+1:]), "~", " ")
		values := member(got.body, name)
		if name[0] >= 'A' && name[0] <= 'Z' {
			values = []string{got.header.Get(name)}
		}
		switch {
		case word[end] == '>' && values[0] != "":
			c.kept[word[end+1:]] = values[0]
		case word[end] == '>':
			return fmt.Errorf("answered without %s: %v", name, got.body)
		case !slices.Contains(values, want):
			return fmt.Errorf("%s is %q, want %q", name, values, want)
		}
	}
	return nil
}

// member returns the texts at a path in a response, or one empty text if there are none. A number
// is an index in a list; * means all items.
func member(of any, path string) []string {
	name, rest, more := strings.Cut(path, ".")
	var found []any
	switch of := of.(type) {
	case map[string]any:
		found = []any{of[name]}
	case []any:
		place, err := strconv.Atoi(name)
		switch {
		case name == "*":
			found = of
		case err == nil && place < len(of):
			found = []any{of[place]}
		}
	}
	var texts []string
	for _, each := range found {
		switch {
		case more:
			texts = append(texts, member(each, rest)...)
		case each != nil:
			texts = append(texts, fmt.Sprint(each))
		}
	}
	if len(texts) == 0 {
		return []string{""}
	}
	return texts
}
