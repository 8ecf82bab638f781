// Package passport writes and checks the file that proves one handoff to any reader, at any later
// time, without the gateway.
//
// A passport has every step exactly as signed, the keys by ID with their sources, the evidence
// behind vouched steps, the receipts of the home, and a hash chain over the steps. The home signs
// the canonical form of all this.
//
// [Issue] makes a passport from the record, and [Write] from given [Contents]. [Checker.Verify]
// checks a passport with only its file and returns a [Report]. A did:key proves its own signatures.
// Other signatures depend on the keys that the home found for them, and the order and times of the
// steps depend on the home. The report lists each such dependency.
package passport

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

// MediaType is the media type of a passport, and its member "type".
const MediaType = "application/vnd.baton.passport+json"

// Version is the member "v" of passports. This package rejects any other version.
const Version = 1

// MaxBytes bounds a passport: ten times the size of a long handoff with its evidence.
const MaxBytes = 16 << 20

// Schema is the JSON Schema of a passport.
//
//go:embed schema.json
var Schema string

// Passport is the content of the file.
type Passport struct {
	Type     string            `json:"type"`
	V        int               `json:"v"`
	Home     federation.HomeID `json:"home"`
	Issuer   federation.DID    `json:"issuer"`
	Issued   time.Time         `json:"issued"`
	Handoff  Summary           `json:"handoff"`
	Steps    []Step            `json:"steps"`
	Receipts []Receipt         `json:"receipts"`
	Keys     []Key             `json:"keys"`

	Signature string `json:"signature,omitempty"` // of all other members; scheme "passport"
}

// Summary is the handoff at the time of issue.
type Summary struct {
	ID       federation.HandoffID `json:"id"`
	Kind     federation.Kind      `json:"kind"`
	Dialect  federation.Dialect   `json:"dialect"`
	State    federation.State     `json:"state"`
	Title    string               `json:"title"`
	Offerer  federation.DID       `json:"offerer"`
	Offeree  federation.DID       `json:"offeree,omitempty"`
	Assignee federation.DID       `json:"assignee,omitempty"`
}

// Step is one filed step: its signed document, and the home's notes about it.
type Step struct {
	Seq   federation.Version `json:"seq"` // position in the log, from 1
	ID    federation.EventID `json:"event_id"`
	Verb  federation.Verb    `json:"verb"`
	From  federation.DID     `json:"from"`
	Actor federation.DID     `json:"actor"` // party of the step
	// Recipient is the recipient of an offer, if the document names it by the DID of a key that
	// the home keeps for it.
	Recipient  federation.DID        `json:"recipient,omitempty"`
	Provenance federation.Provenance `json:"provenance"`
	Received   time.Time             `json:"received"`
	Filed      time.Time             `json:"filed"`
	Document   string                `json:"document"`  // exactly as signed
	Signature  string                `json:"signature"` // in its wire form
	Evidence   *Evidence             `json:"evidence,omitempty"`
	Erased     *Erased               `json:"erased,omitempty"` // set if the home erased the document
	// Chain is the SHA-256, in hexadecimal, of the previous chain and the canonical form of this
	// step without its chain. Before the first step, the chain is the ID of the handoff.
	Chain string `json:"chain,omitempty"`
}

// Evidence is the original behind a vouched step.
type Evidence struct {
	URL     string `json:"url"`
	Digest  string `json:"sha256"`  // in hexadecimal
	Content string `json:"content"` // served at the URL
}

// Erased is the rest of a step whose document the home erased. Document and signature are then
// empty, and only an unproven claim of the home describes the step.
type Erased struct {
	At     time.Time `json:"at"`
	Digest string    `json:"sha256"` // of the document, in hexadecimal
}

// Receipt is the home's confirmation of a step.
type Receipt struct {
	Document  string `json:"document"`
	Signature string `json:"signature"`
}

// Key is one public key, its owner, and its source according to the home.
type Key struct {
	ID     string         `json:"kid"`
	DID    federation.DID `json:"did"`
	Public string         `json:"public_key"` // base64url
	Source string         `json:"source"`     // such as "did:key", "did:web", "msgsig"; a "home" key is the issuer's
}

// Contents is the record of one handoff.
type Contents struct {
	View     federation.View
	Log      []federation.Entry // complete
	Receipts []federation.Event
	// Evidence returns the bytes behind a vouched step, by their SHA-256.
	Evidence func(digest [32]byte) ([]byte, error)
	// Source returns the source of a key, or "" if none was recorded.
	Source func(did federation.DID, keyID string) string
}

// Write returns the passport of a handoff as canonical JSON, signed by its home. Errors come from
// the evidence and the key.
func Write(ctx context.Context, key federation.SigningKey, c Contents, now time.Time) ([]byte, error) {
	p := Passport{
		Type: MediaType, V: Version, Home: c.View.Home, Issuer: key.DID, Issued: instant(now),
		Handoff: summary(c.View), Steps: []Step{}, Receipts: []Receipt{}, Keys: []Key{newKey(key.DID, key.Public, "home")},
	}
	chain := p.Handoff.ID.String()
	for _, entry := range c.Log {
		step, err := newStep(c, entry)
		if err == nil {
			chain, err = step.link(chain)
		}
		if err != nil {
			return nil, fmt.Errorf("write passport of %s: step %s: %w", c.View.ID, entry.Event.ID, err)
		}
		step.Chain = chain
		p.Steps = append(p.Steps, step)
		p.addKey(c, entry.Event)
	}
	for _, receipt := range c.Receipts {
		if receipt.Erased != nil {
			continue
		}
		p.Receipts = append(p.Receipts, Receipt{Document: receipt.Signature.Document, Signature: receipt.Signature.Text})
		p.addKey(c, receipt)
	}
	return sign(ctx, key, p)
}

func sign(ctx context.Context, key federation.SigningKey, p Passport) ([]byte, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write passport: %w", err)
	}
	if p.Signature, _, err = signing.Passport().Sign(ctx, key, text); err != nil {
		return nil, fmt.Errorf("write passport: %w", err)
	}
	if text, err = json.Marshal(p); err == nil {
		text, err = signing.JCS(text)
	}
	if err != nil {
		return nil, fmt.Errorf("write passport: %w", err)
	}
	return text, nil
}

func summary(v federation.View) Summary {
	return Summary{
		ID: v.ID, Kind: v.Kind, Dialect: v.Dialect, State: v.State, Title: v.Title,
		Offerer: v.Offerer, Offeree: v.Offeree, Assignee: v.Assignee,
	}
}

func newStep(c Contents, entry federation.Entry) (Step, error) {
	ev := entry.Event
	step := Step{
		Seq: entry.Version, ID: ev.ID, Verb: ev.Verb, From: ev.From, Actor: ev.Actor(), Recipient: ev.Arrival.Recipient, Provenance: ev.Provenance,
		Received: instant(ev.Arrival.Received), Filed: instant(entry.Filed),
		Document: ev.Signature.Document, Signature: ev.Signature.Text,
	}
	if ev.Erased != nil {
		step.Erased = &Erased{At: instant(ev.Erased.At), Digest: hex.EncodeToString(ev.Erased.Document[:])}
	}
	if ev.Evidence == nil {
		return step, nil
	}
	content, err := c.Evidence(ev.Evidence.Digest)
	if err != nil {
		return step, fmt.Errorf("read evidence: %w", err)
	}
	step.Evidence = &Evidence{URL: ev.Evidence.URL, Digest: hex.EncodeToString(ev.Evidence.Digest[:]), Content: string(content)}
	return step, nil
}

func (s Step) link(before string) (string, error) {
	s.Chain = ""
	text, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	canonical, err := signing.JCS(text)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append([]byte(before+"\n"), canonical...))
	return hex.EncodeToString(sum[:]), nil
}

func (p *Passport) addKey(c Contents, ev federation.Event) {
	if len(ev.Signature.Key) == 0 {
		return
	}
	key := newKey(ev.From, ev.Signature.Key, "")
	if slices.ContainsFunc(p.Keys, func(k Key) bool { return k.ID == key.ID && k.DID == key.DID }) {
		return
	}
	switch {
	case strings.HasPrefix(string(ev.From), "did:key:"):
		key.Source = "did:key"
	case c.Source != nil:
		key.Source = c.Source(key.DID, key.ID)
	}
	if key.Source == "" {
		key.Source = "record"
	}
	p.Keys = append(p.Keys, key)
}

func newKey(did federation.DID, public []byte, source string) Key {
	return Key{ID: federation.KeyID(public), DID: did, Public: base64.RawURLEncoding.EncodeToString(public), Source: source}
}

// Times in passports are in UTC, to the millisecond.
func instant(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func parse(text []byte) (Passport, *Finding) {
	if len(text) > MaxBytes {
		return Passport{}, &Finding{Code: Malformed, Detail: fmt.Sprintf("longer than %d bytes", MaxBytes)}
	}
	if err := federation.ExactJSON(text); err != nil {
		return Passport{}, &Finding{Code: Malformed, Detail: err.Error()}
	}
	var p Passport
	if err := federation.DecodeJSON(text, &p); err != nil {
		return Passport{}, &Finding{Code: Malformed, Detail: err.Error()}
	}
	switch {
	case p.Type != MediaType:
		return p, &Finding{Code: WrongType, Detail: fmt.Sprintf("%q", p.Type)}
	case p.V != Version:
		return p, &Finding{Code: WrongVersion, Detail: fmt.Sprintf("%d, want %d", p.V, Version)}
	case len(p.Steps) == 0:
		return p, &Finding{Code: Malformed, Detail: "it has no steps"}
	}
	return p, nil
}

// Record reads the parts of a passport. Its methods block on the disk, and return an error wrapping
// [*federation.UnavailableError] if it cannot be read now.
type Record interface {
	// Log yields the steps of one handoff after a version, oldest first. Version 0 yields all steps.
	Log(ctx context.Context, id federation.HandoffID, after federation.Version) iter.Seq2[federation.Entry, error]
	// Receipts returns the home's receipts for the steps of a handoff, oldest first.
	Receipts(ctx context.Context, id federation.HandoffID) ([]federation.Event, error)
	// Evidence returns bytes by their SHA-256.
	Evidence(ctx context.Context, digest [32]byte) ([]byte, error)
	// History returns the known keys of a DID.
	History(ctx context.Context, did federation.DID) (federation.KeyHistory, error)
}

// ErrTooLong is returned by [Issue] for a passport that would exceed [MaxBytes].
var ErrTooLong = errors.New("passport: it would be too long")

// ErrRemote is returned by [Issue] for a handoff of another home, which is the only issuer.
var ErrRemote = errors.New("passport: it is a handoff of another home")

// Issue returns the passport of a handoff at the version of the view, signed by its home. The error
// is [ErrTooLong], [ErrRemote], or comes from the record or the key.
func Issue(ctx context.Context, record Record, key federation.SigningKey, view federation.View, now time.Time) ([]byte, error) {
	if view.Remote {
		return nil, ErrRemote
	}
	contents := Contents{
		View:     view,
		Evidence: func(digest [32]byte) ([]byte, error) { return record.Evidence(ctx, digest) },
	}
	var err error
	if contents.Log, err = stepsOf(ctx, record, view); err != nil {
		return nil, err
	}
	if contents.Receipts, err = receiptsOf(ctx, record, view, contents.Log); err != nil {
		return nil, err
	}
	histories := map[federation.DID]federation.KeyHistory{}
	for _, entry := range contents.Log {
		did := entry.Event.From
		if _, read := histories[did]; read {
			continue
		}
		history, err := record.History(ctx, did)
		if err != nil {
			return nil, err
		}
		histories[did] = history
	}
	contents.Source = func(did federation.DID, keyID string) string { return histories[did].Source(keyID) }
	text, err := Write(ctx, key, contents, now)
	if err == nil && len(text) > MaxBytes {
		err = ErrTooLong
	}
	return text, err
}

func stepsOf(ctx context.Context, record Record, view federation.View) ([]federation.Entry, error) {
	var steps []federation.Entry
	size := 0
	for entry, err := range record.Log(ctx, view.ID, 0) {
		if err != nil {
			return nil, err
		}
		if entry.Version > view.Version {
			break // filed since
		}
		if size += len(entry.Event.Signature.Document); size > MaxBytes {
			return nil, ErrTooLong
		}
		steps = append(steps, entry)
	}
	return steps, nil
}

func receiptsOf(ctx context.Context, record Record, view federation.View, steps []federation.Entry) ([]federation.Event, error) {
	all, err := record.Receipts(ctx, view.ID)
	if err != nil {
		return nil, err
	}
	filed := map[federation.EventID]bool{}
	for _, entry := range steps {
		filed[entry.Event.ID] = true
	}
	var receipts []federation.Event
	for _, receipt := range all {
		if filed[receipt.Subject] {
			receipts = append(receipts, receipt)
		}
	}
	return receipts, nil
}
