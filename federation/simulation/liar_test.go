package simulation_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/relay"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate/dialect"
)

// lie lets the liar post something false to an honest home.
func (w *world) lie(pick uint64) {
	liar := w.oracle.liar
	victim := w.sites[pick%(homes-1)]
	if victim.live() == nil || victim.live().dead.Load() {
		return
	}
	who := w.agents[pick/8%uint64(len(w.agents))]
	lies := []func(liar, victim *site, who *agent){w.pretend, w.ruleForOthers, w.forge, w.equivocate, w.equivocate, w.speakFor, w.askFalsely, w.misplace}
	w.carrier.count("lies")
	lies[pick/1024%uint64(len(lies))](liar, victim, who)
}

// pretend signs a batch in the name of another home.
func (w *world) pretend(liar, victim *site, who *agent) {
	other := w.sites[(victim.number+1)%(homes-1)]
	ev := who.sign(federation.Event{Verb: federation.Offer, To: w.agentOf(victim).key.DID})
	w.oracle.forged[ev.Signature.Document+ev.Signature.Text] = true
	w.expect(victim, "status 401", w.post(liar, victim, other.id, w.ruled(other, other.id, ev, 1, [32]byte{})))
}

// ruleForOthers rules on a handoff of another home.
func (w *world) ruleForOthers(liar, victim *site, who *agent) {
	if who.at == liar {
		return
	}
	ev := who.sign(federation.Event{Verb: federation.Offer, To: w.agentOf(victim).key.DID})
	w.oracle.forged[ev.Signature.Document+ev.Signature.Text] = true
	w.expect(victim, "refused", w.post(liar, victim, liar.id, w.ruled(liar, who.at.id, ev, 1, [32]byte{})))
}

// forge rules on an offer that its sender did not sign.
func (w *world) forge(liar, victim *site, who *agent) {
	ev := who.sign(federation.Event{Verb: federation.Offer, To: w.agentOf(victim).key.DID})
	ev.Signature.Text = twisted(ev.Signature.Text)
	w.oracle.forged[ev.Signature.Document+ev.Signature.Text] = true
	w.expect(victim, "refused", w.post(liar, victim, liar.id, w.ruled(liar, liar.id, ev, 1, [32]byte{})))
}

// misplace rules that an offer comes after another step.
func (w *world) misplace(liar, victim *site, _ *agent) {
	ev := w.agentOf(liar).sign(federation.Event{Verb: federation.Offer, To: w.agentOf(victim).key.DID})
	w.oracle.forged[ev.Signature.Document+ev.Signature.Text] = true
	w.expect(victim, "refused", w.post(liar, victim, liar.id, w.ruled(liar, liar.id, ev, 1, [32]byte{1})))
}

// askFalsely asks for a ruling on a step in the name of an agent that did not sign it.
func (w *world) askFalsely(liar, victim *site, who *agent) {
	for _, id := range w.offered {
		view, err := victim.live().record.View(w.ctx, id)
		if err != nil || view.Home != victim.id || view.Over {
			continue
		}
		ev := who.sign(federation.Event{Verb: federation.Cancel, Handoff: id, Dialect: view.Dialect})
		ev.Signature.Text = twisted(ev.Signature.Text)
		w.oracle.forged[ev.Signature.Document+ev.Signature.Text] = true
		w.expect(victim, "refused", w.post(liar, victim, liar.id, plain(ev)))
		return
	}
}

// speakFor vouches for a step of an agent of the home that gets it.
func (w *world) speakFor(liar, victim *site, _ *agent) {
	who := w.agentOf(victim)
	if !who.loggedIn[victim.live()] || who.at != victim || who.toMove != nil {
		return
	}
	evidence, err := json.Marshal(map[string]string{"document": "an offer of " + who.name})
	if err != nil {
		panic(err)
	}
	key := newKey("kept for " + who.name + " at " + string(liar.id))
	ev := who.sign(federation.Event{Verb: federation.Offer, To: who.key.DID})
	ev.From, ev.For, ev.Provenance = key.DID, who.key.DID, federation.Vouched
	ev.Evidence = &federation.Evidence{URL: "https://" + string(liar.id) + "/evidence/1", Digest: sha256.Sum256(evidence), Bytes: evidence}
	ev.Fields, _ = dialect.Write(ev)
	if ev, err = signing.Seal(w.ctx, key, ev); err != nil {
		panic(err)
	}
	it := w.ruled(liar, liar.id, ev, 1, [32]byte{})
	step, _ := it["step"].(map[string]any)
	step["provenance"], step["evidence"] = "vouched", map[string]string{"url": ev.Evidence.URL, "content": string(evidence)}
	w.oracle.forged[ev.Signature.Document+ev.Signature.Text] = true
	w.expect(victim, "refused", w.post(liar, victim, liar.id, it))
}

// equivocate tells an honest home two histories of a handoff of the liar.
func (w *world) equivocate(liar, victim *site, _ *agent) {
	for _, id := range w.offered {
		view, err := victim.live().record.View(w.ctx, id)
		if err != nil || view.Home != liar.id || view.Over || w.oracle.tainted[id] {
			continue
		}
		i := slices.IndexFunc(w.agents, func(a *agent) bool { return a.key.DID == view.Offerer && a.at == liar })
		if i < 0 {
			continue
		}
		chain, err := victim.live().record.Chain(w.ctx, id, view.Version)
		if err != nil {
			w.fail("read", "chain of %s at %s: %v", short(id), victim.id, err)
			return
		}
		w.oracle.tainted[id] = true
		w.carrier.count("forks")
		for _, want := range []string{"stored", "conflict"} {
			ev := w.agents[i].sign(federation.Event{Verb: federation.Cancel, Handoff: id, Dialect: view.Dialect})
			if got := w.post(liar, victim, liar.id, w.ruled(liar, liar.id, ev, view.Version+1, chain)); !strings.Contains(got, want) {
				if want == "stored" && !victim.live().dead.Load() { // the cancel of an offer that may not be cancelled
					return
				}
				w.expect(victim, want, got)
			}
		}
		if forked, err := victim.live().record.Forked(w.ctx, id); !victim.live().dead.Load() && (err != nil || !forked) {
			w.fail("forks-are-proved", "%s has no proof that %s forked %s (%v)", victim.id, liar.id, short(id), err)
		}
		return
	}
}

// expect notes that a home answered a lie in another way.
func (w *world) expect(victim *site, want, got string) {
	if !victim.live().dead.Load() && !strings.Contains(got, want) && !strings.Contains(got, "killed") {
		w.fail("nothing-false", "%s answers a lie with %s, want %s", victim.id, got, want)
	}
}

func (w *world) agentOf(s *site) *agent { return w.agents[s.number*agentsOfEach] }

// twisted returns a signature that verifies nothing.
func twisted(signature string) string {
	text := []byte(signature)
	at := len(text) - 4
	if text[at] == 'A' {
		text[at] = 'B'
	} else {
		text[at] = 'A'
	}
	return string(text)
}

// post posts a batch of one item in the name of a home, signed by the liar, and returns the answer.
func (w *world) post(liar, victim *site, as federation.HomeID, it map[string]any) string {
	body, err := json.Marshal(map[string]any{
		"type": "steps", "v": 1, "from": as, "to": victim.id, "sent": time.Now(), "items": []map[string]any{it},
	})
	if err != nil {
		panic(err)
	}
	signature, err := signing.SignHome(w.ctx, liar.key, body)
	if err != nil {
		panic(err)
	}
	answer, err := victim.answer(http.MethodPost, "https://"+string(victim.id)+string(relay.StepsPath), relay.Envelope{Body: body, Signature: signature})
	if err != nil {
		return err.Error()
	}
	return string(answer.Body)
}

// plain returns a step in its wire form without a ruling.
func plain(ev federation.Event) map[string]any {
	return map[string]any{"step": map[string]any{
		"document": ev.Signature.Document, "signature": ev.Signature.Text, "id": ev.ID, "provenance": "signed", "received": time.Now().UTC(),
	}}
}

// ruled returns a step with a ruling in the name of a home, signed by another one.
func (w *world) ruled(by *site, as federation.HomeID, ev federation.Event, version federation.Version, before [32]byte) map[string]any {
	document, err := json.Marshal(map[string]any{
		"type": "ruling", "v": 1, "home": as, "handoff": ev.Handoff, "event": ev.ID, "version": version,
		"chain": fmt.Sprintf("%x", federation.Link(before, ev.Signature.Document)), "filed": time.Now().UTC(),
	})
	if err != nil {
		panic(err)
	}
	signature, err := signing.SignHome(w.ctx, by.key, document)
	if err != nil {
		panic(err)
	}
	it := plain(ev)
	it["ruling"] = map[string]any{"document": string(document), "signature": signature}
	return it
}
