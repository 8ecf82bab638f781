package main_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

// A homeRequest is a POST of another home.
type homeRequest struct {
	body      []byte
	signature string
	path      string
}

// homeRequest returns a signed batch of steps of c.test.
func (s *stage) homeRequest(t *testing.T, changes map[string]any, items ...map[string]any) homeRequest {
	t.Helper()
	batch := map[string]any{"type": "steps", "v": 1, "from": "c.test", "to": "gw.test", "sent": time.Now(), "items": append([]map[string]any{}, items...)}
	maps.Copy(batch, changes)
	return s.signRequest(t, benchKey("c.test"), batch)
}

func (s *stage) signRequest(t *testing.T, key federation.SigningKey, batch any) homeRequest {
	t.Helper()
	body, raw := batch.([]byte)
	if !raw {
		var err error
		if body, err = json.Marshal(batch); err != nil {
			t.Fatal(err)
		}
	}
	signature, err := signing.SignHome(t.Context(), key, body)
	if err != nil {
		t.Fatal(err)
	}
	return homeRequest{body: body, signature: signature}
}

// carried returns a step as homes carry it, with a ruling of a home signed by a key.
func (s *stage) carried(t *testing.T, key federation.SigningKey, home string, step taggedStep, p party, more map[string]any) map[string]any {
	t.Helper()
	document := documentOf(t, step, p)
	ruling, err := json.Marshal(map[string]any{
		"type": "ruling", "v": 1, "home": home, "handoff": step.id, "event": step.id, "version": 1,
		"chain": fmt.Sprintf("%x", federation.Link([32]byte{}, document)), "filed": time.Now().UTC(),
	})
	if err != nil {
		t.Fatal(err)
	}
	signature, err := signing.SignHome(t.Context(), key, ruling)
	if err != nil {
		t.Fatal(err)
	}
	carried := map[string]any{
		"document": document, "signature": step.tags["+freeq.at/sig"], "id": step.id, "provenance": "signed", "received": time.Now().UTC(),
	}
	maps.Copy(carried, more)
	return map[string]any{"step": carried, "ruling": map[string]any{"document": string(ruling), "signature": signature}}
}

// abroad returns an offer to scout, signed by a party at c.test.
func (s *stage) abroad(t *testing.T, p party, changes map[string]string) taggedStep {
	t.Helper()
	to := federation.DID(s.scout.DID)
	return p.seal(t, federation.HandoffTags, federation.PrivateVenue(p.did, to), func(id string) map[string]string {
		return offerFields(federation.HandoffTags, p, id, to, "Cite three sources")
	}, changes)
}

// delivers posts a request and returns the status with the code of the answer, or the outcome
// of its first step.
func (s *stage) delivers(t *testing.T, r homeRequest) string {
	t.Helper()
	header := map[string]string{"Baton-Signature": r.signature}
	if r.path != "" {
		header["Baton-Path"] = r.path
	}
	status, body := s.exchange(t, s.public(), httpRequest{method: http.MethodPost, path: "/fed/v1/events", body: r.body, header: header})
	var said struct {
		Error   string
		Results []struct{ Outcome, Code string }
	}
	if err := json.Unmarshal(body, &said); err != nil {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	if len(said.Results) > 0 {
		return strings.TrimSpace(said.Results[0].Outcome + " " + said.Results[0].Code)
	}
	return strings.TrimSpace(fmt.Sprint(status, " ", said.Error))
}

func (s *stage) homeOffer(t *testing.T) (item map[string]any, step taggedStep, by party) {
	t.Helper()
	by = newParty(t)
	step = s.abroad(t, by, nil)
	item = s.carried(t, benchKey("c.test"), "c.test", step, by, nil)
	if got := s.delivers(t, s.homeRequest(t, nil, item)); got != "stored" {
		t.Fatalf("an honest offer of another home is answered %q", got)
	}
	s.files(step.id)
	return item, step, by
}

// homeDoor is the entrance for the batches of other homes.
func homeDoor() entrance {
	return entrance{
		name: "home to home",
		never: map[lie]string{
			lieBadToken: "homes sign what they send and show no token", lieForeignHost: "the public listener serves any host",
			lieConnect: "the same HTTP listener as AIRC D1", lieSlow: "the same HTTP listener as AIRC D1",
		},
		serves: func(t *testing.T, s *stage) {
			t.Helper()
			s.homeOffer(t)
		},
		tries: map[lie]func(*testing.T, *stage) []attempt{
			lieWeakKey: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				var all []attempt
				for _, weak := range weakParties(t) {
					item := s.carried(t, benchKey("c.test"), "c.test", s.abroad(t, weak, nil), weak, nil)
					got := s.delivers(t, s.homeRequest(t, nil, item))
					all = append(all, attempt{"a step by " + weak.String(), got, "refused invalid-tag"})
				}
				return all
			},
			lieOtherIdentity: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				by := newParty(t)
				offer := s.abroad(t, by, nil)
				mallory := benchKey("mallory.test")
				asked := map[string]any{"step": s.carried(t, mallory, "c.test", offer, by, nil)["step"]}
				impostor := mallory
				impostor.DID = "did:web:c.test"
				return []attempt{
					{"a home that is no peer", s.delivers(t, s.signRequest(t, mallory, map[string]any{"type": "steps", "v": 1, "from": "mallory.test", "to": "gw.test", "sent": time.Now(), "items": []any{}})), "403 unknown-home"},
					{"a batch of a peer, signed by another home", s.delivers(t, s.signRequest(t, impostor, map[string]any{"type": "steps", "v": 1, "from": "c.test", "to": "gw.test", "sent": time.Now(), "items": []any{}})), "401 signature-invalid"},
					{"a ruling of another home", s.delivers(t, s.homeRequest(t, nil, s.carried(t, mallory, "mallory.test", offer, by, nil))), "refused wrong-sender"},
					{"a ruling signed by another home", s.delivers(t, s.homeRequest(t, nil, s.carried(t, mallory, "c.test", offer, by, nil))), "refused signature-invalid"},
					{"an offer without a ruling", s.delivers(t, s.homeRequest(t, nil, asked)), "refused wrong-sender"},
				}
			},
			lieReplayed: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				item, step, by := s.homeOffer(t)
				other := s.abroad(t, by, map[string]string{"handoff-task": "Other work"})
				other.id, other.fields["handoff-id"] = step.id, step.id
				other = by.resign(t, federation.HandoffTags, other)
				request := s.homeRequest(t, nil, item)
				request.path = "gw.test, c.test"
				return []attempt{
					{"a step again", s.delivers(t, s.homeRequest(t, nil, item)), "duplicate"},
					{"other work under the same id", s.delivers(t, s.homeRequest(t, nil, s.carried(t, benchKey("c.test"), "c.test", other, by, nil))), "conflict wrong-sender"},
					{"a step that has been here", s.delivers(t, request), "refused policy-denied"},
				}
			},
			lieTampered: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				by := newParty(t)
				offer := s.abroad(t, by, nil)
				bent := s.carried(t, benchKey("c.test"), "c.test", offer, by, map[string]any{"signature": s.abroad(t, by, nil).tags["+freeq.at/sig"]})
				whole := s.homeRequest(t, nil, s.carried(t, benchKey("c.test"), "c.test", offer, by, nil))
				changed := whole
				changed.body = []byte(strings.Replace(string(whole.body), "three sources", "three coins!!", 1))
				cut := whole
				cut.signature = whole.signature[:len(whole.signature)-8]
				none := whole
				none.signature = ""
				return []attempt{
					{"a byte of the batch", s.delivers(t, changed), "401 signature-invalid"},
					{"the signature of another step", s.delivers(t, s.homeRequest(t, nil, bent)), "refused signature-invalid"},
					{"half a signature", s.delivers(t, cut), "401 signature-invalid"},
					{"no signature", s.delivers(t, none), "503 signature-unverifiable"},
				}
			},
			lieDoubled: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				batch := map[string]any{"type": "steps", "v": 1, "from": "c.test", "to": "gw.test", "sent": time.Now(), "items": []any{}}
				var all []attempt
				for name, value := range map[string]any{"from": "gw.test", "to": "x.test", "type": "move", "items": []any{1}} {
					all = append(all, attempt{"two members " + name, s.delivers(t, s.signRequest(t, benchKey("c.test"), twice(t, batch, name, value))), "400 malformed"})
				}
				return all
			},
			lieMisshapen: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				var all []attempt
				for name, body := range misshapenBodies(4<<20, 10_000) {
					want := "400 malformed"
					if name == "huge" {
						want = "413 too-large"
					}
					all = append(all, attempt{name, s.delivers(t, s.signRequest(t, benchKey("c.test"), body)), want})
				}
				return append(all, attempt{"a member that is not there", s.delivers(t, s.homeRequest(t, map[string]any{"more": 1})), "400 malformed"})
			},
			lieOversize: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				by := newParty(t)
				item := s.carried(t, benchKey("c.test"), "c.test", s.abroad(t, by, nil), by, nil)
				items := make([]map[string]any, 257)
				for i := range items {
					items[i] = item
				}
				return []attempt{{"257 steps", s.delivers(t, s.homeRequest(t, nil, items...)), "400 malformed"}}
			},
			lieTraversal: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				ask := func(did string) string {
					return s.answer(t, s.public(), getting("/fed/v1/residents/"+did, ""))
				}
				return []attempt{
					{"a home with a path", s.delivers(t, s.homeRequest(t, map[string]any{"from": "c.test/../x"})), "403 unknown-home"},
					{"a resident with dots", fmt.Sprint(strings.HasPrefix(ask("..%2f..%2foperator"), "4")), "true"},
					{"a resident with a path", fmt.Sprint(strings.HasPrefix(ask("did:web:..%2f..%2fetc"), "4")), "true"},
				}
			},
			lieMisaddressed: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				by := newParty(t)
				offer := s.abroad(t, by, nil)
				item := s.carried(t, benchKey("c.test"), "c.test", offer, by, nil)
				request := s.homeRequest(t, nil, item)
				request.path = "c.test, elsewhere.test"
				return []attempt{
					{"for another home", s.delivers(t, s.homeRequest(t, map[string]any{"to": "elsewhere.test"}, item)), "400 malformed"},
					{"a path that ends elsewhere", s.delivers(t, request), "400 malformed"},
					{"of a version that is not there", s.delivers(t, s.homeRequest(t, map[string]any{"v": 2}, item)), "400 malformed"},
				}
			},
			lieForgedOrigin: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				by, hash := newParty(t), "sha256:"+strings.Repeat("ab", 32)
				offer := s.abroad(t, by, map[string]string{"handoff-src": "https://c.test/evidence/x", "handoff-src-h": hash})
				plain := s.abroad(t, by, nil)
				evidence := map[string]any{"evidence": map[string]any{"url": "https://c.test/evidence/x", "content": "{}"}}
				send := func(step taggedStep, more map[string]any) string {
					return s.delivers(t, s.homeRequest(t, nil, s.carried(t, benchKey("c.test"), "c.test", step, by, more)))
				}
				return []attempt{
					{"evidence that is not there", send(offer, nil), "refused missing-requirement"},
					{"evidence with another hash", send(offer, evidence), "refused invalid-tag"},
					{"evidence that the step does not name", send(plain, evidence), "refused missing-requirement"},
					{"a provenance that is none", send(plain, map[string]any{"provenance": "sworn"}), "refused invalid-tag"},
				}
			},
			lieInvisible: func(t *testing.T, s *stage) []attempt {
				t.Helper()
				by := newParty(t)
				var all []attempt
				for name, title := range map[string]string{"an escape sequence": "\x1b[2Jclean", "a newline": "one\ntwo"} {
					item := s.carried(t, benchKey("c.test"), "c.test", s.abroad(t, by, map[string]string{"handoff-task": title}), by, nil)
					all = append(all, attempt{name, s.delivers(t, s.homeRequest(t, nil, item)), "refused invalid-tag"})
				}
				return all
			},
		},
	}
}
