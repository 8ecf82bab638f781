package main_test

import (
	"crypto/ed25519"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
)

// listedHandoff is an entry in a caller's list of handoffs.
type listedHandoff struct{ ID, State, Title, Offerer, Offeree, Assignee string }

// lists waits for a handoff with a title in a caller's list.
func (c *caller) lists(t *testing.T, title string) (found listedHandoff) {
	t.Helper()
	await(t, "the caller to have "+title, func() bool {
		var page struct{ Items []listedHandoff }
		c.must(t, http.StatusOK, http.MethodGet, "handoffs", nil, &page)
		for _, h := range page.Items {
			if h.Title == title {
				found = h
			}
		}
		return found.ID != ""
	})
	return found
}

// received waits for an offer with a title in a caller's inbox.
func (c *caller) received(t *testing.T, title string) (found map[string]any) {
	t.Helper()
	await(t, "the caller to read "+title, func() bool {
		var page struct {
			Items []struct{ Step map[string]any }
		}
		c.must(t, http.StatusOK, http.MethodGet, "inbox", nil, &page)
		for _, e := range page.Items {
			if e.Step["title"] == title {
				found = e.Step
			}
		}
		return found != nil
	})
	return found
}

// works lets a caller do the work of a received offer, and checks its passport.
func (h *house) works(t *testing.T, who *caller, title string) {
	t.Helper()
	offer := who.lists(t, title)
	if offer.Offeree != string(who.did) || offer.State != "offered" {
		t.Fatalf("%s is %+v, want an offer to %s", title, offer, who.did)
	}
	who.step(t, offer.ID, "accept", nil)
	who.step(t, offer.ID, "complete", map[string]any{"note": "done"})
	if got := who.lists(t, title); got.State != "completed" || got.Assignee != string(who.did) {
		t.Errorf("after the work it is %+v", got)
	}
	passport := filepath.Join(t.TempDir(), "passport.json")
	for _, args := range [][]string{{"handoff", "export", offer.ID, "-o", passport}, {"handoff", "verify", passport}} {
		if out, err := h.command(t, args...).CombinedOutput(); err != nil {
			t.Errorf("baton %v: %v %s", args, err, out)
		}
	}
}

// introduced returns two callers, and the DID of the key kept for the first one, as the second
// one's inbox shows it.
func introduced(t *testing.T, h *house) (author, reader *caller, kept string) {
	t.Helper()
	author, reader = logIn(t, h.url()), logIn(t, h.url())
	author.offer(t, map[string]any{"to": reader.did, "title": "the first offer"})
	step := reader.received(t, "the first offer")
	kept, _ = step["signed_by"].(string)
	if step["from"] != string(author.did) || kept == "" || kept == string(author.did) {
		t.Fatalf("the inbox shows from %v, signed by %v; want from %s", step["from"], step["signed_by"], author.did)
	}
	return author, reader, kept
}

// Everything a participant sends to the DID of a kept key reaches its owner, at each entry point.
func TestReplyReachesItsAuthor(t *testing.T) {
	t.Parallel()
	v := newVillage(t)
	author, reader, kept := introduced(t, v.house)
	seed, _ := newSeed(t)
	host := newCommandHost(t, v.house, "--key-file", seed)
	for name, offer := range map[string]func(t *testing.T, title string){
		"REST": func(t *testing.T, title string) {
			t.Helper()
			reader.offer(t, map[string]any{"to": kept, "title": title})
		},
		"MCP, signed": func(t *testing.T, title string) {
			t.Helper()
			if got, code := host.tool("handoff_offer", map[string]any{"to": kept, "title": title}); code != "" {
				t.Fatalf("the tool answers %s %v", code, got)
			}
		},
		"A2A": func(t *testing.T, title string) {
			t.Helper()
			author.must(t, http.StatusOK, http.MethodPut, "agents/"+url.PathEscape(string(author.did)), map[string]any{"caps": []string{"cite"}}, nil)
			reader.a2a(t, "/a2a/"+kept, "SendMessage", map[string]any{
				"message":       map[string]any{"messageId": title, "role": "ROLE_USER", "parts": []any{map[string]any{"text": title}}},
				"configuration": map[string]any{"returnImmediately": true},
			})
		},
		"the command of operators": func(t *testing.T, title string) {
			t.Helper()
			v.asks(t, &struct{}{}, "handoff", "offer", "--from", ann, "--to", kept, "--title", title)
		},
		"AIRC": func(t *testing.T, title string) {
			t.Helper()
			who, status := v.identify(t, kept)
			if status != http.StatusOK || who.DID != string(author.did) {
				t.Fatalf("the registry says %d %+v, want %s", status, who, author.did)
			}
			payload := map[string]any{"type": "task:request", "data": map[string]any{"description": title}}
			if status, answer, err := v.scout.Send(t.Context(), who.Handle, title, payload); err != nil || status != http.StatusCreated {
				t.Fatalf("the request is answered %d %v, %v", status, answer, err)
			}
		},
	} {
		t.Run("an offer over "+name, func(t *testing.T) {
			title := "offered over " + name
			offer(t, title)
			author.received(t, title)
			v.works(t, author, title)
		})
	}
	for name, write := range map[string]func(t *testing.T, text string){
		"REST": func(t *testing.T, text string) {
			t.Helper()
			var sent struct{ To string }
			reader.must(t, http.StatusCreated, http.MethodPost, "messages", map[string]any{"to": kept, "text": text}, &sent)
			if sent.To != string(author.did) {
				t.Errorf("the message is said to go to %s", sent.To)
			}
		},
		"MCP": func(t *testing.T, text string) {
			t.Helper()
			if got, code := newCommandHost(t, v.house, "--as", ann).tool("message_send", map[string]any{"to": kept, "text": text}); code != "" {
				t.Fatalf("the tool answers %s %v", code, got)
			}
		},
	} {
		t.Run("a message over "+name, func(t *testing.T) {
			text := "hello over " + name
			write(t, text)
			if got := author.hears(t, text); got["to"] != string(author.did) {
				t.Errorf("the message is %v", got)
			}
		})
	}
	t.Run("whois", func(t *testing.T) {
		who, _ := host.tool("whois", map[string]any{"who": kept})
		if got := member(who, "items", "did"); got != string(author.did) {
			t.Errorf("the tool answers %v, want %s", who, author.did)
		}
	})
	t.Run("after a restart", func(t *testing.T) {
		v.stop(t)
		v.start(t)
		reader.offer(t, map[string]any{"to": kept, "title": "offered after a restart"})
		v.works(t, author, "offered after a restart")
	})
}

// A participant of one home writes to the DID of a key that another home keeps.
func TestReplyReachesItsAuthorAtAnotherHome(t *testing.T) {
	t.Parallel()
	all := newNeighbours(t, "a.test", "b.test")
	a, b := all[0], all[1]
	a.start(t)
	b.start(t)
	author, _, kept := introduced(t, a.house)
	for name, offer := range map[string]func(title string){
		"vouched": func(title string) { logIn(t, b.url()).offer(t, map[string]any{"to": kept, "title": title}) },
		"signed": func(title string) {
			key, _ := b.key(t, 7)
			b.must(t, "handoff", "offer", "--key-file", key, "--to", kept, "--title", title)
		},
	} {
		offer(name + " offer")
		id := author.lists(t, name+" offer").ID
		for _, verbs := range []string{"offer accept", "offer accept complete"} {
			verb := verbs[strings.LastIndexByte(verbs, ' ')+1:]
			author.must(t, http.StatusAccepted, http.MethodPost, "handoffs/"+id+"/"+verb, nil, nil)
			agree(t, id, verbs, a, b)
		}
		if got := a.show(t, id); got.Assignee != string(author.did) {
			t.Errorf("%s: the assignee at its home is %s, want %s", name, got.Assignee, author.did)
		}
	}
	t.Run("an answer that the author signs", func(t *testing.T) {
		file, _ := a.key(t, 9)
		signer := logInWith(t, a.url(), ed25519.NewKeyFromSeed(append([]byte{9}, make([]byte, 31)...)))
		signer.offer(t, map[string]any{"to": author.did, "title": "from the signer"})
		kept, _ := author.received(t, "from the signer")["signed_by"].(string)
		logIn(t, b.url()).offer(t, map[string]any{"to": kept, "title": "for the signer"})
		id := signer.lists(t, "for the signer").ID
		a.must(t, "handoff", "accept", id, "--key-file", file)
		agree(t, id, "offer accept", a, b)
		a.must(t, "handoff", "complete", id, "--key-file", file)
		agree(t, id, "offer accept complete", a, b)
	})
	t.Run("a message", func(t *testing.T) {
		other := logIn(t, b.url())
		other.must(t, http.StatusAccepted, http.MethodPost, "messages", map[string]any{"to": kept, "text": "hello from b"}, nil)
		author.hears(t, "hello from b")
	})
}
