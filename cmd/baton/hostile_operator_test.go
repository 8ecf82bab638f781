package main_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const operatorPath = "/operator/v1/"

// notOfOperators are the lies that the operator API has no place for.
func notOfOperators(more map[lie]string) map[lie]string {
	all := map[lie]string{
		lieWeakKey: "it takes no key", lieReplayed: "nothing is signed but offers: see REST steps", lieMisaddressed: "an operator names the recipient",
		lieForgedOrigin: "a step of an operator is signed or vouched for as over REST",
	}
	maps.Copy(all, more)
	return all
}

func (s *stage) socket() listener { return listener{"http://gateway", s.sockets} }

func (s *stage) adminListener() listener { return listener{"http://" + s.admin, http.DefaultTransport} }

// asked sends a request to the operator API.
func (s *stage) asked(t *testing.T, at listener, name string, r httpRequest, want string) attempt {
	t.Helper()
	if !strings.HasPrefix(r.path, "/") {
		r.path = operatorPath + r.path
	}
	return attempt{r.method + " " + r.path + ": " + name, s.answer(t, at, r), want}
}

// operatorTries are the attempts that both listeners of operators refuse alike.
func operatorTries(at func(t *testing.T, s *stage) (listener, string)) map[lie]func(*testing.T, *stage) []attempt {
	offer := map[string]any{"from": "did:web:gw.test", "to": "did:web:gw.test", "title": "x"}
	return map[lie]func(*testing.T, *stage) []attempt{
		lieOtherIdentity: func(t *testing.T, s *stage) []attempt {
			t.Helper()
			to, token := at(t, s)
			unbound := map[string]any{"from": string(newParty(t).did), "to": s.scout.DID, "title": "x"}
			return []attempt{s.asked(t, to, "an offer for a DID that is not bound", posting("handoffs", token, unbound), "401 need-signature")}
		},
		lieTampered: func(t *testing.T, s *stage) []attempt {
			t.Helper()
			to, token := at(t, s)
			proof := s.signedOffer(t, newParty(t), nil)
			proof["document"] = strings.Replace(proof["document"].(string), "three sources", "three coins", 1)
			return []attempt{s.asked(t, to, "a signed offer with another title", posting("handoffs", token, map[string]any{"proof": proof}), "401 signature-invalid")}
		},
		lieDoubled: func(t *testing.T, s *stage) []attempt {
			t.Helper()
			to, token := at(t, s)
			return []attempt{
				s.asked(t, to, "two titles", posting("handoffs", token, twice(t, offer, "title", "y")), "400 usage"),
				s.asked(t, to, "two scopes", posting("tokens", token, twice(t, map[string]any{"name": "x", "scope": "read"}, "scope", "admin")), "400 usage"),
			}
		},
		lieMisshapen: func(t *testing.T, s *stage) []attempt {
			t.Helper()
			to, token := at(t, s)
			return s.misshapes(t, to, operatorPath+"handoffs", token, "400 usage", "400 usage")
		},
		lieOversize: func(t *testing.T, s *stage) []attempt {
			t.Helper()
			to, token := at(t, s)
			return []attempt{
				s.asked(t, to, "a page of a billion", getting("handoffs?limit=1000000000", token), "400 usage"),
				s.asked(t, to, "a name of 10,000 letters", posting("tokens", token, map[string]any{"name": strings.Repeat("x", 10_000), "scope": "read"}), "400 usage"),
			}
		},
		lieTraversal: func(t *testing.T, s *stage) []attempt {
			t.Helper()
			to, token := at(t, s)
			dots := url.PathEscape("../../../etc/passwd")
			return []attempt{
				s.asked(t, to, "a handoff", getting("handoffs/"+dots, token), "404 not-found"),
				s.asked(t, to, "a link", getting("links/"+dots, token), "404 not-found"),
				s.asked(t, to, "an inbox", getting("inboxes/"+dots, token), "400 usage"),
				s.asked(t, to, "a key", posting("keys/"+dots+"/rotate", token, map[string]any{}), "400 usage"),
				s.asked(t, to, "a path that is not there", getting("nothing/"+dots, token), "404 not-found"),
			}
		},
		lieInvisible: func(t *testing.T, s *stage) []attempt {
			t.Helper()
			to, token := at(t, s)
			proof := s.signedOffer(t, newParty(t), map[string]string{"handoff-task": "\x1b[2Jclean"})
			return []attempt{s.asked(t, to, "an escape sequence in a title", posting("handoffs", token, map[string]any{"proof": proof}), "400 invalid-tag")}
		},
	}
}

// operatorSocket is the entrance for operators on this machine.
func operatorSocket() entrance {
	tries := operatorTries(func(_ *testing.T, s *stage) (listener, string) { return s.socket(), "" })
	path := func(s *stage) string { return filepath.Join(s.dir, "data", "baton.sock") }
	tries[lieConnect] = func(t *testing.T, s *stage) []attempt {
		t.Helper()
		return s.connects(t, "unix", path(s))
	}
	tries[lieSlow] = func(t *testing.T, s *stage) []attempt {
		t.Helper()
		return s.drips(t, "unix", path(s), operatorPath+"handoffs", func() attempt {
			begun := time.Now()
			s.operator(t, "links")
			return attempt{"a list while 64 clients send by the byte", fmt.Sprint(time.Since(begun) < answerTime), "true"}
		})
	}
	return entrance{
		name: "operator API on the socket", tries: tries,
		never: notOfOperators(map[lie]string{
			lieBadToken: "the mode of the socket admits its owner alone", lieForeignHost: "no page of a browser reaches a socket",
		}),
		serves: func(t *testing.T, s *stage) {
			t.Helper()
			s.operator(t, "links")
		},
	}
}

// operatorToken makes a token over the socket and shows it once: from then on it passes
// however many wrong ones come from the same address.
func (s *stage) operatorToken(t *testing.T, scope string) string {
	t.Helper()
	status, text := s.exchange(t, s.socket(), posting(operatorPath+"tokens", "", map[string]any{"name": "t" + nextNick(), "scope": scope, "reason": "hostile test"}))
	var made struct{ Token string }
	if err := json.Unmarshal(text, &made); err != nil || status/100 != 2 || made.Token == "" {
		t.Fatalf("an operator token is answered %d %s", status, text)
	}
	if a := s.asked(t, s.adminListener(), "", getting("links", made.Token), "200"); a.answer != a.want {
		t.Fatalf("an honest operator is answered %q", a.answer)
	}
	return made.Token
}

func operatorListener() entrance {
	tries := operatorTries(func(_ *testing.T, s *stage) (listener, string) { return s.adminListener(), s.tokens["admin"] })
	tries[lieConnect] = func(t *testing.T, s *stage) []attempt {
		t.Helper()
		return s.connects(t, "tcp", s.admin)
	}
	tries[lieForeignHost] = func(t *testing.T, s *stage) []attempt {
		t.Helper()
		token := s.tokens["admin"]
		var all []attempt
		for _, host := range []string{"evil.example", "evil.example:8081", "localhost.evil.example", "127.0.0.1.evil.example"} {
			for _, path := range []string{operatorPath + "links", "/metrics", "/debug/pprof/", "/livez"} {
				r := getting(path, token)
				r.host = host
				all = append(all, s.asked(t, s.adminListener(), host, r, "421 foreign_host"))
			}
		}
		return all
	}
	tries[lieSlow] = func(t *testing.T, s *stage) []attempt {
		t.Helper()
		token := s.tokens["read"]
		return s.drips(t, "tcp", s.admin, operatorPath+"handoffs", func() attempt {
			return s.asked(t, s.adminListener(), "while 64 clients send by the byte", getting("links", token), "200")
		})
	}
	tries[lieBadToken] = func(t *testing.T, s *stage) []attempt {
		t.Helper()
		at, read, agent := s.adminListener(), s.tokens["read"], s.restLogin(t, newParty(t))
		all := []attempt{
			s.asked(t, at, "the scope to read", posting("tokens", read, map[string]any{"name": "x", "scope": "admin"}), "403 forbidden"),
			s.asked(t, at, "the scope to read", posting("handoffs", read, map[string]any{"title": "x"}), "403 forbidden"),
			s.asked(t, at, "the token of an agent", getting("links", agent), "401 unauthorized"),
			s.asked(t, at, "none", getting("links", ""), "401 unauthorized"),
		}
		// A good token passes however many bad ones the address showed.
		throttled := false
		for n := range 30 {
			got := s.asked(t, at, fmt.Sprint("guess ", n), getting("links", fmt.Sprint("guess-", n)), "401 unauthorized")
			if strings.HasPrefix(got.answer, "429 ") {
				got.want, throttled = got.answer, true
			}
			all = append(all, got)
		}
		return append(
			all,
			attempt{"guesses of a token are throttled", fmt.Sprint(throttled), "true"},
			s.asked(t, at, "a token that is good, after the guesses", getting("links", read), "200"),
		)
	}
	return entrance{
		name: "operator API on admin.listen", tries: tries, never: notOfOperators(nil),
		serves: func(t *testing.T, s *stage) {
			t.Helper()
			if a := s.asked(t, s.adminListener(), "", getting("links", s.tokens["read"]), "200"); a.answer != a.want {
				t.Errorf("an honest operator is answered %q", a.answer)
			}
		},
	}
}
