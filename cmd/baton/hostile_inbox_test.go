package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// notOfInboxes are the lies that no way to an inbox has a place for.
func notOfInboxes(more map[lie]string) map[lie]string {
	all := map[lie]string{
		lieWeakKey: "it takes no key", lieReplayed: "nothing is signed", lieTampered: "nothing is signed", lieMisaddressed: "the token names the inbox",
		lieForgedOrigin: "it takes no step", lieInvisible: "people read nothing of it", lieForeignHost: "any page may call the public listener",
		lieConnect: "the same HTTP listener as AIRC D1", lieSlow: "the same HTTP listener as AIRC D1",
	}
	maps.Copy(all, more)
	return all
}

// received logs an honest party in, has it offered work, and returns its token with the
// cursor of the entry.
func (s *stage) received(t *testing.T) (token, cursor string) {
	t.Helper()
	bob := newParty(t)
	token = s.restLogin(t, bob)
	id := s.restOffer(t, s.restLogin(t, newParty(t)), map[string]any{"to": bob.did, "title": "Cite three sources"})
	status, text := s.exchange(t, s.public(), getting("/api/v1/inbox?wait=5s", token))
	var page struct{ Items []struct{ Cursor string } }
	if err := json.Unmarshal(text, &page); err != nil || status != http.StatusOK || len(page.Items) != 1 || !strings.Contains(string(text), id) {
		t.Fatalf("an honest inbox is answered %d %s", status, text)
	}
	return token, page.Items[0].Cursor
}

// restInbox is the entrance for callers that read their inbox by request.
func restInbox() entrance {
	return entrance{
		name:  "REST inbox",
		never: notOfInboxes(nil),
		serves: func(t *testing.T, s *stage) {
			t.Helper()
			s.received(t)
		},
		tries: map[lie]func(*testing.T, *stage) []attempt{
			lieOtherIdentity: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				_, cursor := s.received(t)
				mallory := s.restLogin(t, newParty(t))
				return []attempt{
					s.rest(t, "the cursor of another party", getting("inbox?cursor="+cursor, mallory), "400 usage"),
					s.rest(t, "the lease of another party", posting("inbox/ack", mallory, map[string]any{"device": "desk", "cursor": cursor, "delivery_count": 1}), "409 conflict"),
					s.rest(t, "a put back for another party", posting("inbox/nack", mallory, map[string]any{"device": "desk", "cursor": cursor, "delivery_count": 1}), "409 conflict"),
				}
			},
			lieDoubled: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				token, cursor := s.received(t)
				body := map[string]any{"device": "desk", "cursor": cursor}
				return []attempt{
					s.rest(t, "two cursors", posting("inbox/ack", token, twice(t, body, "cursor", "x")), "400 usage"),
					s.rest(t, "two devices", posting("inbox/lease", token, twice(t, map[string]any{"device": "desk", "limit": 1}, "device", "phone")), "400 usage"),
				}
			},
			lieMisshapen: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				token, _ := s.received(t)
				return s.misshapes(t, s.public(), "/api/v1/inbox/ack", token, "400 usage", "413 usage")
			},
			lieOversize: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				token, cursor := s.received(t)
				return []attempt{
					s.rest(t, "a device of 10,000 letters", posting("inbox/ack", token, map[string]any{"device": strings.Repeat("x", 10_000), "cursor": cursor}), "400 usage"),
					s.rest(t, "a page of a billion", getting("inbox?limit=1000000000", token), "400 usage"),
					s.rest(t, "a wait of a year", getting("inbox?wait=8760h", token), "400 usage"),
				}
			},
			lieTraversal: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				token, _ := s.received(t)
				dots := url.QueryEscape("x/../../../etc/passwd")
				return []attempt{
					s.rest(t, "a cursor", getting("inbox?cursor="+dots, token), "400 usage"),
					s.rest(t, "a device", getting("inbox?device="+dots, token), "400 usage"),
				}
			},
			lieBadToken: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				token, cursor := s.received(t)
				all := s.withBadTokens(t, s.public(), getting("/api/v1/inbox", token), "401 unauthorized", "401 unauthorized")
				return append(all, s.withBadTokens(t, s.public(), posting("/api/v1/inbox/ack", token, map[string]any{"device": "desk", "cursor": cursor}), "401 unauthorized", "401 unauthorized")...)
			},
		},
	}
}

// eventStream is the entrance for callers that watch their inbox as server-sent events.
func eventStream() entrance {
	return entrance{
		name:  "SSE",
		never: notOfInboxes(map[lie]string{lieDoubled: "it takes no body", lieMisshapen: "it takes no body"}),
		serves: func(t *testing.T, s *stage) {
			t.Helper()
			token, _ := s.received(t)
			s.watches(t, token)
		},
		tries: map[lie]func(*testing.T, *stage) []attempt{
			lieOtherIdentity: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				_, cursor := s.received(t)
				return []attempt{s.rest(t, "the cursor of another party", getting("inbox/stream?cursor="+cursor, s.restLogin(t, newParty(t))), "400 usage")}
			},
			lieOversize: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				token, _ := s.received(t)
				return []attempt{s.rest(t, "a cursor of 10,000 letters", getting("inbox/stream?cursor="+strings.Repeat("x", 10_000), token), "400 usage")}
			},
			lieTraversal: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				token, _ := s.received(t)
				return []attempt{s.rest(t, "a cursor", getting("inbox/stream?cursor="+url.QueryEscape("x/../../x"), token), "400 usage")}
			},
			lieBadToken: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				token, _ := s.received(t)
				return s.withBadTokens(t, s.public(), getting("/api/v1/inbox/stream", token), "401 unauthorized", "401 unauthorized")
			},
		},
	}
}

// watches reads the first event of a stream.
func (s *stage) watches(t *testing.T, token string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url()+"/api/v1/inbox/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	for seen, part := "", make([]byte, 4096); !strings.Contains(seen, "event: step"); {
		n, err := response.Body.Read(part)
		if err != nil {
			t.Fatalf("the stream ends with %v after %q", err, seen)
		}
		seen += string(part[:n])
	}
}

// inboxSocket is the entrance for callers that watch their inbox over WebSocket.
func inboxSocket() entrance {
	return entrance{
		name:  "inbox WebSocket",
		never: notOfInboxes(nil),
		serves: func(t *testing.T, s *stage) {
			t.Helper()
			token, cursor := s.received(t)
			if got := s.asksSocket(t, token, fmt.Appendf(nil, `{"id":"1","ack":{"device":"desk","cursor":%q}}`, cursor)); got != "done" {
				t.Errorf("an honest acknowledgement is answered %q", got)
			}
		},
		tries: map[lie]func(*testing.T, *stage) []attempt{
			lieOtherIdentity: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				_, cursor := s.received(t)
				mallory := s.restLogin(t, newParty(t))
				ask := fmt.Appendf(nil, `{"id":"1","ack":{"device":"desk","cursor":%q,"delivery_count":1}}`, cursor)
				return []attempt{{"the lease of another party", s.asksSocket(t, mallory, ask), "conflict"}}
			},
			lieDoubled: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				token, cursor := s.received(t)
				return []attempt{
					{"two cursors", s.asksSocket(t, token, fmt.Appendf(nil, `{"id":"1","ack":{"device":"desk","cursor":%q,"cursor":"x"}}`, cursor)), "usage"},
					{"two questions", s.asksSocket(t, token, fmt.Appendf(nil, `{"id":"1","ack":{"device":"desk","cursor":%q},"lease":{"device":"desk"}}`, cursor)), "usage"},
				}
			},
			lieMisshapen: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				token, _ := s.received(t)
				var all []attempt
				for name, body := range misshapenBodies(1, 100) {
					if name == "huge" {
						continue // see the oversize messages
					}
					all = append(all, attempt{name, s.asksSocket(t, token, body), "usage"})
				}
				return all
			},
			lieOversize: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				token, _ := s.received(t)
				return []attempt{{"a message of a megabyte", s.asksSocket(t, token, []byte(`{"id":"`+strings.Repeat("x", 1<<20)+`"}`)), "closed"}}
			},
			lieTraversal: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				token, _ := s.received(t)
				return []attempt{
					{"a cursor", s.asksSocket(t, token, []byte(`{"id":"1","ack":{"device":"desk","cursor":"x/../../../etc"}}`)), "usage"},
					{"a device", s.asksSocket(t, token, []byte(`{"id":"1","lease":{"device":"../../../etc","limit":1}}`)), "usage"},
				}
			},
			lieBadToken: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				token, _ := s.received(t)
				return s.withBadTokens(t, s.public(), getting("/api/v1/inbox/socket", token), "401 unauthorized", "401 unauthorized")
			},
		},
	}
}

// asksSocket sends one message over a WebSocket and returns the code of its answer.
func (s *stage) asksSocket(t *testing.T, token string, message []byte) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, response, err := websocket.Dial(ctx, strings.Replace(s.url(), "http", "ws", 1)+"/api/v1/inbox/socket", &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + token}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if response.Body != nil {
		_ = response.Body.Close()
	}
	defer func() { _ = conn.CloseNow() }()
	if err := conn.Write(ctx, websocket.MessageText, message); err != nil {
		return "closed"
	}
	for {
		_, text, err := conn.Read(ctx)
		if err != nil {
			return "closed"
		}
		var told struct {
			Entry   json.RawMessage
			Done    bool
			Problem *struct{ Code string }
		}
		if err := json.Unmarshal(text, &told); err != nil {
			t.Fatal(err)
		}
		switch {
		case told.Problem != nil:
			return told.Problem.Code
		case told.Done:
			return "done"
		case told.Entry == nil:
			return string(text)
		}
	}
}

// webhookRegistration is the entrance for the addresses that entries are posted to.
func webhookRegistration() entrance {
	register := func(t *testing.T, s *stage, token, name string, body any, want string) attempt {
		t.Helper()
		return s.rest(t, name, posting("webhooks", token, body), want)
	}
	return entrance{
		name:  "webhook registration",
		never: notOfInboxes(nil),
		serves: func(t *testing.T, s *stage) {
			t.Helper()
			a := register(t, s, s.restLogin(t, newParty(t)), "", map[string]any{"url": s.registry.server.URL + "/federation/relay"}, "201")
			if a.answer != a.want {
				t.Errorf("an honest webhook is answered %q", a.answer)
			}
		},
		tries: map[lie]func(*testing.T, *stage) []attempt{
			lieOtherIdentity: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				_, text := s.exchange(t, s.public(), posting("/api/v1/webhooks", s.restLogin(t, newParty(t)), map[string]any{"url": s.registry.server.URL + "/federation/relay"}))
				var made struct{ ID string }
				if err := json.Unmarshal(text, &made); err != nil || made.ID == "" {
					t.Fatalf("an honest webhook is answered %s", text)
				}
				mallory := s.restLogin(t, newParty(t))
				return []attempt{
					s.rest(t, "a look", getting("webhooks/"+made.ID, mallory), "404 not-found"),
					s.rest(t, "an end", httpRequest{method: http.MethodDelete, path: "webhooks/" + made.ID, token: mallory}, "404 not-found"),
					s.rest(t, "its deliveries", getting("webhooks/"+made.ID+"/deliveries", mallory), "404 not-found"),
					s.rest(t, "a redelivery", posting("webhooks/"+made.ID+"/redeliver", mallory, map[string]any{}), "404 not-found"),
					register(t, s, mallory, "messages of no agent", map[string]any{"url": s.registry.server.URL + "/federation/relay", "of": "messages"}, "400 usage"),
				}
			},
			lieDoubled: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				token := s.restLogin(t, newParty(t))
				return []attempt{register(t, s, token, "two addresses", twice(t, map[string]any{"url": "https://a.example/"}, "url", "https://b.example/"), "400 usage")}
			},
			lieMisshapen: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				return s.misshapes(t, s.public(), "/api/v1/webhooks", s.restLogin(t, newParty(t)), "400 usage", "413 usage")
			},
			lieOversize: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				token := s.restLogin(t, newParty(t))
				return []attempt{register(t, s, token, "an address of 10,000 letters", map[string]any{"url": "https://a.example/" + strings.Repeat("x", 10_000)}, "400 usage")}
			},
			lieTraversal: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				token := s.restLogin(t, newParty(t))
				all := []attempt{s.rest(t, "an id", getting("webhooks/"+url.PathEscape("../../x"), token), "400 usage")}
				for _, address := range []string{"file:///etc/passwd", "gopher://127.0.0.1/_x", "https://user:secret@a.example/", "https://", "//a.example/", "javascript:alert(1)", "https://a.example/\r\nHost: x"} {
					all = append(all, register(t, s, token, address, map[string]any{"url": address}, "400 usage"))
				}
				return all
			},
			lieBadToken: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				token := s.restLogin(t, newParty(t))
				return s.withBadTokens(t, s.public(), posting("/api/v1/webhooks", token, map[string]any{"url": "https://a.example/"}), "401 unauthorized", "401 unauthorized")
			},
		},
	}
}
