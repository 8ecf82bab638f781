package main_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// publicDocuments is the entrance for readers of documents, evidence and blobs.
func publicDocuments() entrance {
	read := func(t *testing.T, s *stage, name, path, want string) attempt {
		t.Helper()
		return attempt{"GET " + path + ": " + name, s.answer(t, s.public(), getting(path, "")), want}
	}
	return entrance{
		name: "well-known documents, evidence and blobs",
		never: map[lie]string{
			lieWeakKey: "it takes no key", lieReplayed: "nothing is signed", lieTampered: "nothing is signed", lieDoubled: "it takes no body",
			lieMisshapen: "it takes no body", lieMisaddressed: "nothing is addressed", lieForgedOrigin: "it takes no step", lieInvisible: "it takes no text",
			lieForeignHost: "any page may read public documents", lieConnect: "the same HTTP listener as AIRC D1", lieSlow: "the same HTTP listener as AIRC D1",
		},
		serves: func(t *testing.T, s *stage) {
			t.Helper()
			for _, path := range []string{"/.well-known/did.json", "/.well-known/airc", "/.well-known/airc/registry.json", "/openapi.json"} {
				if a := read(t, s, "", path, "200"); a.answer != a.want {
					t.Errorf("%s is answered %q", path, a.answer)
				}
			}
		},
		tries: map[lie]func(*testing.T, *stage) []attempt{
			lieOtherIdentity: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				zeros := strings.Repeat("00", 32)
				return []attempt{
					read(t, s, "evidence that no step names", "/evidence/"+zeros, "404 not_found"),
					read(t, s, "evidence in capitals", "/evidence/"+strings.Repeat("AB", 32), "404 not_found"),
					read(t, s, "a blob that is not there", "/blob/"+zeros, "404 not_found"),
					read(t, s, "the keys of an agent that is not there", "/airc/gw.test/nobody_here/did.json", "404 identity_not_found"),
				}
			},
			lieOversize: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				return []attempt{read(t, s, "a name of 10,000 letters", "/evidence/"+strings.Repeat("a", 10_000), "404 not_found")}
			},
			lieTraversal: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				dots := url.PathEscape("../../../../etc/passwd")
				return []attempt{
					read(t, s, "evidence", "/evidence/"+dots, "404 not_found"),
					read(t, s, "a blob", "/blob/"+dots, "404 not_found"),
					read(t, s, "a well-known document", "/.well-known/"+dots, "404 not_found"),
					read(t, s, "a signing key", "/api/v1/signing-keys/"+dots, "404 no such key"),
					read(t, s, "an agent", "/airc/gw.test/"+dots+"/did.json", "404 identity_not_found"),
					read(t, s, "a registry", "/airc/"+dots+"/scout_7/did.json", "404 identity_not_found"),
					read(t, s, "the root of the file system", "/%2e%2e/%2e%2e/etc/passwd", "404 not_found"),
					read(t, s, "the socket of operators", "/data/baton.sock", "404 not_found"),
				}
			},
			lieBadToken: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				private := s.evidenceOfPrivate(t)
				return []attempt{
					{"evidence of a private handoff without a token", s.answer(t, s.public(), getting(private, "")), "404 not_found"},
					{"with a token that is no token", s.answer(t, s.public(), getting(private, "garbage")), "404 not_found"},
					{"with the token of a stranger", s.answer(t, s.public(), getting(private, s.restLogin(t, newParty(t)))), "404 not_found"},
				}
			},
		},
	}
}

// evidenceOfPrivate files a vouched offer between two parties and returns the path of its
// evidence, named only by a digest.
func (s *stage) evidenceOfPrivate(t *testing.T) string {
	t.Helper()
	token := s.restLogin(t, newParty(t))
	id := s.restOffer(t, token, s.toScout())
	status, text := s.exchange(t, s.public(), getting("/api/v1/handoffs/"+id, token))
	_, after, found := strings.Cut(string(text), "/evidence/")
	if status != http.StatusOK || !found || len(after) < 64 {
		t.Fatalf("an honest handoff is answered %d %s", status, text)
	}
	return "/evidence/" + after[:64]
}
