package passport

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

// Checker checks passports. Its functions do no I/O.
type Checker struct {
	// Read parses the step of a canonical document.
	Read func(document string) (federation.Event, error)
	// Replay returns the view after a log, or an error for a step that no rule allows.
	Replay func(home federation.HomeID, log iter.Seq2[federation.Entry, error]) (federation.View, error)
	// KeyDID returns the did:key of a key.
	KeyDID func(ed25519.PublicKey) federation.DID
}

// Verify checks a passport. The report has all findings, not only the first one.
func (c Checker) Verify(ctx context.Context, text []byte) Report {
	p, wrong := parse(text)
	if wrong != nil {
		return Report{Verdict: federation.Invalid, Findings: []Finding{*wrong}}
	}
	check := &checking{Checker: c, passport: p, keys: keys{}, ids: map[federation.EventID]bool{}, findings: []Finding{}}
	check.readKeys()
	check.outer(text)
	check.steps(ctx)
	check.receipts()
	return check.report()
}

type checking struct {
	Checker
	passport Passport
	keys     keys
	ids      map[federation.EventID]bool
	log      []federation.Entry
	claims   []Claim
	findings []Finding
}

func (c *checking) find(code Code, step Step, detail string) {
	c.findings = append(c.findings, Finding{Code: code, Step: uint64(step.Seq), Detail: detail})
}

type keys map[federation.DID][]ed25519.PublicKey

// Keys implements [federation.KeySource].
func (k keys) Keys(_ context.Context, q federation.KeyQuery) ([]ed25519.PublicKey, error) {
	return k[q.DID], nil
}

// KeyOwner implements [federation.KeySource].
func (k keys) KeyOwner(_ context.Context, keyID string) (federation.DID, error) {
	if owner := k.owner(keyID); owner != "" {
		return owner, nil
	}
	return "", federation.ErrNotFound
}

func (k keys) owner(keyID string) federation.DID {
	for did, list := range k {
		if slices.ContainsFunc(list, func(key ed25519.PublicKey) bool { return federation.KeyID(key) == keyID }) {
			return did
		}
	}
	return ""
}

func parseKey(text string) (ed25519.PublicKey, error) {
	raw, err := signing.DecodeBase64URL(text)
	if err != nil {
		return nil, err
	}
	return federation.ParsePublicKey(raw)
}

func (c *checking) readKeys() {
	seen := map[[2]string]bool{}
	for _, key := range c.passport.Keys {
		public, err := parseKey(key.Public)
		switch {
		case err != nil:
			c.find(KeyEncoding, Step{}, key.ID)
			continue
		case federation.KeyID(public) != key.ID:
			c.find(KeyIDWrong, Step{}, key.ID)
			continue
		case key.DID.Method() == "key" && c.KeyDID(public) != key.DID:
			c.find(KeyOwner, Step{}, string(key.DID))
			continue
		case seen[[2]string{string(key.DID), key.ID}]:
			c.find(KeyDuplicate, Step{}, key.ID)
		}
		seen[[2]string{string(key.DID), key.ID}] = true
		c.keys[key.DID] = append(c.keys[key.DID], public)
	}
}

func (c *checking) outer(text []byte) {
	p := c.passport
	if p.Issuer != p.Home.DID() {
		c.find(IssuerMismatch, Step{}, "issued by "+string(p.Issuer)+", not by "+string(p.Home.DID()))
	}
	switch c.signedBy(p.Issuer, signing.Passport(), text, p.Signature) {
	case federation.Valid:
	case federation.Invalid:
		c.find(PassportSignature, Step{}, "")
	case federation.Unverifiable:
		kid := named(p.Signature)
		owner := c.keys.owner(kid)
		switch {
		case kid == "":
			c.find(PassportSignature, Step{}, "it has none")
		case owner != "" && owner != p.Issuer:
			c.find(IssuerMismatch, Step{}, "signed with the key of "+string(owner))
		default:
			c.find(KeyMissing, Step{}, kid)
		}
	}
}

func (c *checking) signedBy(did federation.DID, scheme signing.Scheme, message []byte, signature string) federation.Verdict {
	verdict := federation.Unverifiable
	for _, key := range c.keys[did] {
		judged, _ := scheme.Verify(message, signature, key)
		if judged == federation.Valid {
			return federation.Valid
		}
		if judged == federation.Invalid {
			verdict = federation.Invalid
		}
	}
	return verdict
}

func named(signature string) string {
	kid, _, _ := signing.Passport().Encoding.Read(signature)
	return kid
}

func (c *checking) steps(ctx context.Context) {
	chain := c.passport.Handoff.ID.String()
	var filed time.Time
	for i, step := range c.passport.Steps {
		if uint64(step.Seq) != uint64(i)+1 {
			c.find(StepOrder, step, "")
		}
		if c.ids[step.ID] {
			c.find(StepDuplicate, step, step.ID.String())
		}
		c.ids[step.ID] = true
		next, err := step.link(chain)
		if err != nil || next != step.Chain {
			c.find(StepChain, step, "")
		}
		chain = step.Chain
		if step.Filed.Before(filed) || step.Filed.Before(step.Received) {
			c.find(StepTime, step, "")
		}
		filed = step.Filed
		c.step(ctx, step)
	}
}

func (c *checking) step(ctx context.Context, step Step) {
	if step.Erased != nil {
		c.erased(step)
		return
	}
	ev, err := c.Read(step.Document)
	if err != nil {
		c.find(StepDocument, step, err.Error())
		return
	}
	ev.Signature.Text = step.Signature
	ev.Arrival.Received = step.Received
	c.listed(step, ev)
	c.signature(ctx, step, ev)
	c.evidence(step, ev)
	ev.ID, ev.Provenance, ev.Arrival.ActingFor, ev.Arrival.Recipient = step.ID, step.Provenance, step.Actor, step.Recipient
	c.log = append(c.log, federation.Entry{Event: ev, Version: step.Seq, Filed: step.Filed})
	c.claims = append(c.claims, c.claim(step, ev))
}

// Only the home's statement supports the claim.
func (c *checking) erased(step Step) {
	if step.Document != "" || step.Signature != "" || step.Evidence != nil {
		c.find(StepDocument, step, "listed as erased, but present")
		return
	}
	c.find(DocumentErased, step, "at "+step.Erased.At.Format(time.RFC3339))
	c.claims = append(c.claims, Claim{Verb: step.Verb, Actor: step.Actor, Voucher: c.passport.Issuer, Time: step.Received})
}

func (c *checking) listed(step Step, ev federation.Event) {
	if ev.Verb != step.Verb {
		c.find(StepVerb, step, "signed as "+string(ev.Verb))
	}
	if ev.From != step.From {
		c.find(StepSigner, step, "signed as "+string(ev.From))
	}
	if ev.Handoff != c.passport.Handoff.ID {
		c.find(StepHandoff, step, ev.Handoff.String())
	}
	if ev.Stamped && ev.ID != step.ID {
		c.find(StepID, step, "signed as "+ev.ID.String())
	}
	if step.Provenance == federation.Vouched && ev.For != "" && step.Actor != ev.For {
		c.find(StepActor, step, "it stands for "+string(ev.For))
	}
}

func (c *checking) signature(ctx context.Context, step Step, ev federation.Event) {
	judged, _, err := signing.Verify(ctx, c.keys, ev)
	if judged.Signature.Document != step.Document {
		c.find(StepDocument, step, "not in its canonical form")
		return
	}
	refused, _ := errors.AsType[*federation.RefusalError](err)
	switch {
	case err == nil:
	case refused != nil && refused.Code == federation.SignatureUnverifiable:
		c.find(KeyMissing, step, string(ev.From))
	case refused != nil && refused.Code == federation.ActorMismatch:
		c.find(StepSigner, step, "signed with the key of another")
	default:
		c.find(StepSignature, step, err.Error())
	}
}

// The signed step has the digest of the original, and any signature on it is the actor's.
func (c *checking) evidence(step Step, ev federation.Event) {
	// A step based on an operator's binding has no original: only the gateway vouches for it.
	_, named := ev.Fields[string(ev.Dialect)+"-src-h"]
	if (step.Evidence != nil) != named || named && step.Provenance != federation.Vouched {
		c.find(Provenance, step, string(step.Provenance))
	}
	if step.Evidence == nil {
		return
	}
	sum := sha256.Sum256([]byte(step.Evidence.Content))
	digest := hex.EncodeToString(sum[:])
	if digest != step.Evidence.Digest || ev.Fields[string(ev.Dialect)+"-src-h"] != "sha256:"+digest {
		c.find(EvidenceDigest, step, "")
	}
	if judgeOriginal(step.Evidence.Content) == federation.Invalid {
		c.find(EvidenceSignature, step, "")
	}
}

// Evidence without a signature, such as an IRC line of an authenticated account, depends on the
// gateway that received it.
func judgeOriginal(content string) federation.Verdict {
	var original struct {
		Document  string `json:"document"`
		Signature string `json:"signature"`
		Key       struct {
			PublicKey string `json:"publicKey"`
		} `json:"key"`
	}
	if err := federation.DecodeJSON([]byte(content), &original); err != nil {
		return federation.Invalid
	}
	raw, err := signing.DecodeBase64URL(original.Key.PublicKey)
	if err != nil || len(raw) == 0 {
		return federation.Unverifiable
	}
	key, err := federation.ParsePublicKey(raw)
	if err != nil {
		return federation.Invalid
	}
	if original.Signature != "" {
		_, verdict := signing.Match([]byte(original.Document), original.Signature, key, signing.HandoffStep(), signing.ActStep())
		return verdict
	}
	var message struct {
		Signature string `json:"signature"`
	}
	if err := federation.DecodeJSON([]byte(original.Document), &message); err != nil {
		return federation.Invalid
	}
	verdict, _ := signing.Message().Verify([]byte(original.Document), message.Signature, key)
	return verdict
}

func (c *checking) receipts() {
	for _, receipt := range c.passport.Receipts {
		said := readReceipt(receipt.Document)
		switch {
		case said.from != c.passport.Issuer || said.handoff != c.passport.Handoff.ID.String():
			c.find(ReceiptDocument, Step{}, "")
			continue
		case !slices.ContainsFunc(c.passport.Steps, func(step Step) bool { return step.ID.String() == said.subject }):
			c.find(ReceiptSubject, Step{}, said.subject)
		}
		switch c.signedBy(said.from, signing.Receipt(), []byte(receipt.Document), receipt.Signature) {
		case federation.Valid:
		case federation.Invalid:
			c.find(ReceiptSignature, Step{}, said.subject)
		case federation.Unverifiable:
			c.find(KeyMissing, Step{}, named(receipt.Signature))
		}
	}
}

type confirmed struct {
	from             federation.DID
	handoff, subject string
}

func readReceipt(document string) confirmed {
	if _, err := signing.Receipt().Document([]byte(document)); err != nil {
		return confirmed{}
	}
	var members map[string]string
	if err := federation.DecodeJSON([]byte(document), &members); err != nil {
		return confirmed{}
	}
	dialect := federation.HandoffTags
	if _, act := members[string(federation.ActTags)]; act {
		dialect = federation.ActTags
	}
	return confirmed{
		from: federation.DID(members["from"]), handoff: members[string(dialect)+"-id"], subject: members[string(dialect)+"-subject"],
	}
}

func (c *checking) replay() {
	view, err := c.Replay(c.passport.Home, func(yield func(federation.Entry, error) bool) {
		for _, entry := range c.log {
			if !yield(entry, nil) {
				return
			}
		}
	})
	if err != nil {
		c.find(StepIllegal, Step{}, err.Error())
		return
	}
	want, got := c.passport.Handoff, summary(view)
	if want.State != got.State {
		c.find(StateMismatch, Step{}, "the steps end as "+string(got.State))
	}
	if want.Offerer != got.Offerer || want.Offeree != got.Offeree || want.Assignee != got.Assignee {
		c.find(PartiesMismatch, Step{}, "")
	}
	want.State, want.Offerer, want.Offeree, want.Assignee = got.State, got.Offerer, got.Offeree, got.Assignee
	if want != got {
		c.find(SummaryMismatch, Step{}, "")
	}
}
