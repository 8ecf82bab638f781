package passport_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/lifecycle"
	"github.com/baton-gateway/baton/federation/passport"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate/dialect"
)

const home federation.HomeID = "gw.example"

//go:generate go test -run ^TestPassportMatchesItsGoldenFile$ -update .

// update is set by go generate: the example is made anew from fixed seeds.
var update = flag.Bool("update", false, "write the example anew")

func noon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

func keyOf(seed byte) federation.SigningKey {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	public, _ := private.Public().(ed25519.PublicKey)
	return federation.SigningKey{Public: public, DID: identity.KeyDID(public), Sign: func(_ context.Context, message []byte) ([]byte, error) {
		return ed25519.Sign(private, message), nil
	}}
}

func homeKey() federation.SigningKey {
	key := keyOf(0x11)
	key.DID = home.DID()
	return key
}

func checker() passport.Checker {
	return passport.Checker{Read: dialect.FromDocument, KeyDID: identity.KeyDID, Replay: lifecycle.Shipped().Replay}
}

// A story is one handoff in the making: alice on IRC offers, an agent accepts in an
// AIRC message that the gateway vouches for, and completes it itself.
type story struct {
	t        *testing.T
	dialect  federation.Dialect
	view     federation.View
	log      []federation.Entry
	receipts []federation.Event
	evidence map[[32]byte][]byte
}

func newStory(t *testing.T, d federation.Dialect) *story {
	t.Helper()
	s := &story{t: t, dialect: d, evidence: map[[32]byte][]byte{}}
	alice, agent := keyOf(0x22), keyOf(0x33)
	s.file(alice, federation.Event{Verb: federation.Offer, To: agent.DID, Title: "Cite three sources on X", Provenance: federation.Signed})
	s.file(agent, federation.Event{Verb: federation.Accept, Provenance: federation.Vouched, Evidence: s.original(agent)})
	s.file(agent, federation.Event{Verb: federation.Complete, Note: "here they are", Provenance: federation.Signed})
	return s
}

func (s *story) original(agent federation.SigningKey) *federation.Evidence {
	message, err := signing.SignEnvelope(s.t.Context(), keyOf(0x44), map[string]any{"v": "0.1", "from": "scout_7", "body": "on it"})
	if err != nil {
		s.t.Fatal(err)
	}
	evidence, err := signing.Original{
		Network: "airc", Received: noon(), Document: string(message), KeyID: signing.AgentKeyID(keyOf(0x44).Public), Key: keyOf(0x44).Public,
	}.Evidence(s.t.Context(), "https://gw.example", "#ops", federation.SigningKey{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.evidence[evidence.Digest] = evidence.Bytes
	return &evidence
}

func (s *story) file(key federation.SigningKey, ev federation.Event) {
	s.t.Helper()
	at := noon().Add(time.Duration(len(s.log)) * time.Minute)
	var err error
	if ev.ID, err = federation.NewEventID(at, bytes.NewReader(bytes.Repeat([]byte{byte(len(s.log))}, 10))); err != nil {
		s.t.Fatal(err)
	}
	ev.Kind, ev.Dialect, ev.From, ev.Venue, ev.Handoff = federation.Handoff, s.dialect, key.DID, "#ops", ev.ID
	if len(s.log) > 0 {
		ev.Handoff = s.view.ID
	}
	ev.Arrival = federation.Arrival{Network: "spanningtree", Received: at.Add(5 * time.Millisecond)}
	ev = s.seal(key, ev)
	filed := at.Add(9 * time.Millisecond)
	s.log = append(s.log, federation.Entry{Event: ev, Version: federation.Version(len(s.log) + 1), Filed: filed})
	if len(s.log) == 1 {
		s.view, err = lifecycle.Shipped().Open(ev, home, filed)
	} else {
		s.view, err = lifecycle.Shipped().Check(s.view, ev, filed)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	if len(s.log) == 1 {
		return // an offer needs no receipt
	}
	receipt := federation.Event{Verb: federation.Confirm, Subject: ev.ID, Kind: ev.Kind, Dialect: ev.Dialect, From: home.DID(), Venue: ev.Venue, Handoff: ev.Handoff, ID: ev.ID}
	receipt.ID[15] ^= 0xff
	s.receipts = append(s.receipts, s.seal(homeKey(), receipt))
}

func (s *story) seal(key federation.SigningKey, ev federation.Event) federation.Event {
	s.t.Helper()
	ev.Fields, _ = dialect.Write(ev)
	ev, err := signing.Seal(s.t.Context(), key, ev)
	if err != nil {
		s.t.Fatal(err)
	}
	return ev
}

func (s *story) write() []byte {
	s.t.Helper()
	text, err := passport.Write(s.t.Context(), homeKey(), passport.Contents{
		View: s.view, Log: s.log, Receipts: s.receipts,
		Evidence: func(digest [32]byte) ([]byte, error) {
			if content, ok := s.evidence[digest]; ok {
				return content, nil
			}
			return nil, federation.ErrNotFound
		},
	}, noon().Add(time.Hour))
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

func dialects() []federation.Dialect {
	return []federation.Dialect{federation.HandoffTags, federation.ActTags}
}

func TestPassportNamesTheActorOfEachStep(t *testing.T) {
	for _, d := range dialects() {
		t.Run(string(d), func(t *testing.T) {
			report := checker().Verify(t.Context(), newStory(t, d).write())
			alice, agent := keyOf(0x22).DID, keyOf(0x33).DID
			want := "valid: offered by " + string(alice) + " (signed), accepted by " + string(agent) +
				" (vouched by did:web:gw.example), completed 2026-11-21T12:02:00.000Z"
			if got := report.Sentence(); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if report.Verdict != federation.Valid || report.Handoff.State != federation.Completed {
				t.Errorf("verdict %v, state %s", report.Verdict, report.Handoff.State)
			}
			if len(report.Words) != 3 {
				t.Errorf("taken on somebody's word: %v; want the order, the home's key and what was vouched for", report.Words)
			}
		})
	}
}

// A script of the commands and checkers in other languages read the passport in testdata.
func TestPassportMatchesItsGoldenFile(t *testing.T) {
	file := filepath.Join("testdata", "passport.json")
	text := newStory(t, federation.ActTags).write()
	if *update {
		if err := os.WriteFile(file, append(text, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(kept), string(text)+"\n"); diff != "" {
		t.Error(diff)
	}
}

func TestVerifyAcceptsOtherJSONSpellings(t *testing.T) {
	text := newStory(t, federation.HandoffTags).write()
	var members map[string]any
	if err := json.Unmarshal(text, &members); err != nil {
		t.Fatal(err)
	}
	spelled, err := json.MarshalIndent(members, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if report := checker().Verify(t.Context(), spelled); report.Verdict != federation.Valid {
		t.Error(report.Sentence())
	}
	if again := newStory(t, federation.HandoffTags).write(); !bytes.Equal(again, text) {
		t.Error("the same handoff at the same time has another passport")
	}
}

// forge changes a passport. With mended, the home itself does: it makes a new chain
// and a new signature.
func forge(t *testing.T, text []byte, mended bool, change func(p *passport.Passport)) []byte {
	t.Helper()
	var p passport.Passport
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	if mended {
		p.Signature = ""
	}
	change(&p)
	if mended && p.Signature == "" {
		var err error
		if p.Signature, _, err = signing.Passport().Sign(t.Context(), homeKey(), marshal(t, p)); err != nil {
			t.Fatal(err)
		}
	}
	return marshal(t, p)
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func relink(p *passport.Passport) {
	chain := p.Handoff.ID.String()
	for i := range p.Steps {
		chain, _ = p.Steps[i].Link(chain)
		p.Steps[i].Chain = chain
	}
}

// swap replaces the first occurrence in a text, which must have one.
func swap(text *string, old, other string) {
	if !strings.Contains(*text, old) {
		panic("nothing to swap: " + old)
	}
	*text = strings.Replace(*text, old, other, 1)
}

func tamperings() map[string]struct {
	change func(p *passport.Passport)
	want   passport.Code
} {
	type tampering = struct {
		change func(p *passport.Passport)
		want   passport.Code
	}
	return map[string]tampering{
		"another media type":           {func(p *passport.Passport) { p.Type = "application/json" }, passport.WrongType},
		"another version":              {func(p *passport.Passport) { p.V = 2 }, passport.WrongVersion},
		"no steps":                     {func(p *passport.Passport) { p.Steps = nil }, passport.Malformed},
		"another home":                 {func(p *passport.Passport) { p.Home = "evil.example" }, passport.IssuerMismatch},
		"padded base64 in a key":       {func(p *passport.Passport) { p.Keys = append(p.Keys, p.Keys[1]); p.Keys[3].Public += "=" }, passport.KeyEncoding},
		"the key of somebody else":     {func(p *passport.Passport) { p.Keys = append(p.Keys, p.Keys[1]); p.Keys[3].Public = p.Keys[2].Public }, passport.KeyIDWrong},
		"a key under another did:key":  {func(p *passport.Passport) { p.Keys = append(p.Keys, p.Keys[1]); p.Keys[3].DID = p.Keys[2].DID }, passport.KeyOwner},
		"a key twice":                  {func(p *passport.Passport) { p.Keys = append(p.Keys, p.Keys[1]) }, passport.KeyDuplicate},
		"a step left out at the start": {func(p *passport.Passport) { p.Steps = p.Steps[1:]; p.Receipts = nil; p.Handoff.State = ""; relink(p) }, passport.StepOrder},
		"steps with other numbers":     {func(p *passport.Passport) { p.Steps[2].Seq = 4; relink(p) }, passport.StepOrder},
		"a step twice": {func(p *passport.Passport) {
			again := p.Steps[2]
			again.Seq = 4
			p.Steps = append(p.Steps, again)
			relink(p)
		}, passport.StepDuplicate},
		"another chain":                  {func(p *passport.Passport) { p.Steps[1].Chain = strings.Repeat("0", 64) }, passport.StepChain},
		"a document that is none":        {func(p *passport.Passport) { p.Steps[2].Document = "{}"; relink(p) }, passport.StepDocument},
		"a document respelled":           {func(p *passport.Passport) { swap(&p.Steps[2].Document, ",", ", "); relink(p) }, passport.StepDocument},
		"another note":                   {func(p *passport.Passport) { swap(&p.Steps[2].Document, "here they are", "there they are"); relink(p) }, passport.StepSignature},
		"the signature of another step":  {func(p *passport.Passport) { p.Steps[2].Signature = p.Steps[1].Signature; relink(p) }, passport.StepSignature},
		"another signer listed":          {func(p *passport.Passport) { p.Steps[0].From = p.Steps[1].From; relink(p) }, passport.StepSigner},
		"another verb listed":            {func(p *passport.Passport) { p.Steps[2].Verb = federation.Fail; relink(p) }, passport.StepVerb},
		"another id listed":              {func(p *passport.Passport) { p.Steps[2].ID[15]++; p.Receipts = nil; relink(p) }, passport.StepID},
		"filed before it was received":   {func(p *passport.Passport) { p.Steps[2].Filed = p.Steps[2].Received.Add(-time.Millisecond); relink(p) }, passport.StepTime},
		"filed before the last one":      {func(p *passport.Passport) { p.Steps[2].Received, p.Steps[2].Filed = noon(), noon(); relink(p) }, passport.StepTime},
		"done by somebody else":          {func(p *passport.Passport) { p.Steps[2].Actor = "did:example:eve"; relink(p) }, passport.StepIllegal},
		"evidence taken away":            {func(p *passport.Passport) { p.Steps[1].Evidence = nil; relink(p) }, passport.Provenance},
		"vouched made signed":            {func(p *passport.Passport) { p.Steps[1].Provenance = federation.Signed; relink(p) }, passport.Provenance},
		"another digest of evidence":     {func(p *passport.Passport) { p.Steps[1].Evidence.Digest = strings.Repeat("0", 64); relink(p) }, passport.EvidenceDigest},
		"receipt of another step":        {func(p *passport.Passport) { p.Receipts = p.Receipts[:1]; p.Receipts[0].Document = p.Steps[1].Document }, passport.ReceiptDocument},
		"receipt with another signature": {func(p *passport.Passport) { p.Receipts[0].Signature = p.Receipts[1].Signature }, passport.ReceiptSignature},
		"another state":                  {func(p *passport.Passport) { p.Handoff.State = federation.Failed }, passport.StateMismatch},
		"another assignee":               {func(p *passport.Passport) { p.Handoff.Assignee = p.Handoff.Offerer }, passport.PartiesMismatch},
		"another title":                  {func(p *passport.Passport) { p.Handoff.Title = "Cite four" }, passport.SummaryMismatch},
		"a base64 spelled loosely":       {func(p *passport.Passport) { p.Receipts[0].Signature += "=" }, passport.ReceiptSignature},
		"the last steps left out":        {func(p *passport.Passport) { p.Steps = p.Steps[:2]; p.Receipts = p.Receipts[:1] }, passport.StateMismatch},
		"a receipt of a step left out":   {func(p *passport.Passport) { p.Steps = p.Steps[:2]; p.Handoff.State = federation.Assigned }, passport.ReceiptSubject},
	}
}

func codes(r passport.Report) []passport.Code {
	var found []passport.Code
	for _, f := range r.Findings {
		found = append(found, f.Code)
	}
	return found
}

// A stranger that changes a passport cannot sign it again. Forgeries of the home itself are
// found where other parties signed.
func TestVerifyNamesEachTampering(t *testing.T) {
	text := newStory(t, federation.ActTags).write()
	for name, tampering := range tamperings() {
		t.Run(name, func(t *testing.T) {
			by := map[string]passport.Report{
				"a stranger": checker().Verify(t.Context(), forge(t, text, false, tampering.change)),
				"the home":   checker().Verify(t.Context(), forge(t, text, true, tampering.change)),
			}
			for who, report := range by {
				if report.Verdict != federation.Invalid || !slices.Contains(codes(report), tampering.want) {
					t.Errorf("by %s: %s, want %s", who, report.Sentence(), tampering.want)
				}
			}
			if early := []passport.Code{passport.WrongType, passport.WrongVersion, passport.Malformed}; slices.Contains(early, tampering.want) {
				return // nothing else is looked at
			}
			if report := by["a stranger"]; !slices.Contains(codes(report), passport.PassportSignature) && tampering.want != passport.IssuerMismatch {
				t.Errorf("by a stranger: %s, want the signature of the passport too", report.Sentence())
			}
			if report := by["the home"]; slices.Contains(codes(report), passport.PassportSignature) {
				t.Errorf("by the home: %s, which it signed", report.Sentence())
			}
		})
	}
}

// A passport with any changed value is not valid.
func TestVerifyCoversEachValue(t *testing.T) {
	var p any
	if err := json.Unmarshal(newStory(t, federation.HandoffTags).write(), &p); err != nil {
		t.Fatal(err)
	}
	var checked int
	walk(p, "", func(path string) {
		checked++
		if report := checker().Verify(t.Context(), marshal(t, p)); report.Verdict == federation.Valid {
			t.Errorf("%s can change", path)
		}
	})
	if checked < 50 {
		t.Errorf("%d values were changed, want all", checked)
	}
}

func walk(at any, path string, visit func(path string)) {
	change := func(name string, value any, set func(any)) {
		switch v := value.(type) {
		case string:
			set(v + "x")
		case float64:
			set(v + 1)
		default:
			walk(v, path+"/"+name, visit)
			return
		}
		visit(path + "/" + name)
		set(value)
	}
	switch v := at.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			change(name, v[name], func(other any) { v[name] = other })
		}
	case []any:
		for i := range v {
			change(strconv.Itoa(i), v[i], func(other any) { v[i] = other })
		}
	}
}

func TestVerifyIsUnverifiableWithoutKey(t *testing.T) {
	text := forge(t, newStory(t, federation.HandoffTags).write(), true, func(p *passport.Passport) { p.Keys = p.Keys[:2] })
	report := checker().Verify(t.Context(), text)
	if report.Verdict != federation.Unverifiable || !slices.Equal(slices.Compact(codes(report)), []passport.Code{passport.KeyMissing}) {
		t.Errorf("%s, want the missing key alone", report.Sentence())
	}
}

func TestPassportNamesErasedDocuments(t *testing.T) {
	s := newStory(t, federation.HandoffTags)
	s.view = s.view.Erase(noon())
	for i := range s.log {
		s.log[i].Event = s.log[i].Event.Erase(noon())
	}
	s.evidence = nil
	text := s.write()
	if bytes.Contains(text, []byte("three sources")) || bytes.Contains(text, []byte("here they are")) {
		t.Errorf("the passport has the text: %s", text)
	}
	report := checker().Verify(t.Context(), text)
	erased := []passport.Code{passport.DocumentErased, passport.DocumentErased, passport.DocumentErased}
	if report.Verdict != federation.Unverifiable || !slices.Equal(codes(report), erased) || len(report.Claims) != 3 || report.Claims[0].Voucher != home.DID() {
		t.Errorf("%s, %+v; want three erased documents, each claim with the word of the home", report.Sentence(), report.Claims)
	}
	for name, change := range map[string]func(*passport.Passport){
		"another digest": func(p *passport.Passport) { p.Steps[1].Erased.Digest = strings.Repeat("0", 64) },
		"another verb":   func(p *passport.Passport) { p.Steps[2].Verb = federation.Fail },
		"no mark":        func(p *passport.Passport) { p.Steps[0].Erased = nil },
	} {
		if report := checker().Verify(t.Context(), forge(t, text, false, change)); report.Verdict != federation.Invalid {
			t.Errorf("%s: %s", name, report.Sentence())
		}
	}
	both := forge(t, newStory(t, federation.HandoffTags).write(), true, func(p *passport.Passport) {
		p.Steps[0].Erased = &passport.Erased{At: noon(), Digest: strings.Repeat("0", 64)}
		relink(p)
	})
	if report := checker().Verify(t.Context(), both); report.Verdict != federation.Invalid {
		t.Errorf("a document that is there and listed as erased: %s", report.Sentence())
	}
}

func TestVerifyRefusesTheKeyOfAnotherIssuer(t *testing.T) {
	text := newStory(t, federation.HandoffTags).write()
	text = forge(t, text, false, func(p *passport.Passport) {
		p.Signature = ""
		var err error
		if p.Signature, _, err = signing.Passport().Sign(t.Context(), keyOf(0x22), marshal(t, p)); err != nil {
			t.Fatal(err)
		}
	})
	if diff := cmp.Diff([]passport.Code{passport.IssuerMismatch}, codes(checker().Verify(t.Context(), text))); diff != "" {
		t.Error(diff)
	}
}

func TestVerifyChecksForeignEvidence(t *testing.T) {
	s := newStory(t, federation.HandoffTags)
	s = &story{t: t, dialect: s.dialect, evidence: map[[32]byte][]byte{}}
	alice, agent := keyOf(0x22), keyOf(0x33)
	s.file(alice, federation.Event{Verb: federation.Offer, To: agent.DID, Title: "x", Provenance: federation.Signed})
	evidence, err := signing.Original{Network: "airc", Document: `{"v":"0.1","body":"forged","signature":"AAAA"}`, Key: keyOf(0x44).Public}.Evidence(t.Context(), "https://gw.example", "#ops", federation.SigningKey{})
	if err != nil {
		t.Fatal(err)
	}
	s.evidence[evidence.Digest] = evidence.Bytes
	s.file(agent, federation.Event{Verb: federation.Accept, Provenance: federation.Vouched, Evidence: &evidence})
	if diff := cmp.Diff([]passport.Code{passport.EvidenceSignature}, codes(checker().Verify(t.Context(), s.write()))); diff != "" {
		t.Error(diff)
	}
}

func TestVerifyRefusesOtherFiles(t *testing.T) {
	for _, text := range []string{``, `[]`, `{}`, `null`, `{"type":1}`, `{"v":1,"v":1}`, "\xff", strings.Repeat("[", 100)} {
		if report := checker().Verify(t.Context(), []byte(text)); report.Verdict != federation.Invalid || len(report.Findings) != 1 {
			t.Errorf("%q: %s", text, report.Sentence())
		}
	}
	if report := checker().Verify(t.Context(), make([]byte, passport.MaxBytes+1)); !slices.Equal(codes(report), []passport.Code{passport.Malformed}) {
		t.Error(report.Sentence())
	}
}

func TestPassportNeedsItsEvidence(t *testing.T) {
	s := newStory(t, federation.HandoffTags)
	_, err := passport.Write(t.Context(), homeKey(), passport.Contents{
		View: s.view, Log: s.log, Evidence: func([32]byte) ([]byte, error) { return nil, federation.ErrNotFound },
	}, noon())
	if !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}
}

// The schema is for other programs, and nothing else holds it to the code.
func TestSchemaHasEveryMember(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal([]byte(passport.Schema), &schema); err != nil {
		t.Fatal(err)
	}
	items := func(list string, more ...string) []string {
		return append([]string{"properties", list, "items", "properties"}, more...)
	}
	for _, c := range []struct {
		value any
		path  []string
	}{
		{passport.Passport{}, []string{"properties"}},
		{passport.Summary{}, []string{"properties", "handoff", "properties"}},
		{passport.Step{}, items("steps")},
		{passport.Evidence{}, items("steps", "evidence", "properties")},
		{passport.Receipt{}, items("receipts")},
		{passport.Key{}, items("keys")},
	} {
		at := schema
		for _, name := range c.path {
			at, _ = at[name].(map[string]any)
		}
		var members []string
		for field := range reflect.TypeOf(c.value).Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			members = append(members, name)
			if at[name] == nil {
				t.Errorf("%T.%s is not in the schema", c.value, name)
			}
		}
		for name := range at {
			if !slices.Contains(members, name) {
				t.Errorf("%q in the schema is no member of %T", name, c.value)
			}
		}
	}
}

func FuzzVerify(f *testing.F) {
	f.Add([]byte(`{"type":"application/vnd.baton.passport+json","v":1,"steps":[{}],"keys":[{}],"receipts":[{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		report := checker().Verify(t.Context(), text)
		if report.Verdict == federation.Valid {
			t.Errorf("%s is valid, and nobody signed it", text)
		}
		if report.Sentence() == "" {
			t.Error("a report says nothing")
		}
	})
}
