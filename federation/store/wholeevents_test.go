package store_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/fsck"
	"github.com/baton-gateway/baton/federation/store/handoffs"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/translate/dialect"
)

// wholeEvents are events as a record before version 5 has them: as JSON of the whole event.
type wholeEvents struct {
	entries []federation.Entry
	views   []federation.View
	sql     strings.Builder
	literal func([]byte) string // of a database
}

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

func orNull(text string) string {
	if text == "" {
		return "NULL"
	}
	return quoted(text)
}

// insert adds a row of event. A receipt and text have no version.
func (w *wholeEvents) insert(t *testing.T, ev federation.Event, version federation.Version, state federation.State, prev []byte) {
	t.Helper()
	body, err := json.Marshal(ev)
	if err != nil {
		t.Fatal(err)
	}
	position, before := "NULL", "NULL"
	if version > 0 {
		position, before = fmt.Sprint(version), w.literal(prev)
	}
	digest := ev.Digest()
	fmt.Fprintf(&w.sql, "INSERT INTO event (handoff, version, signer, id, digest, prev, message, state, filed, body, said) VALUES ('%s', %s, %s, '%s', %s, %s, %s, '%s', %d, %s, %d);\n",
		ev.Handoff, position, quoted(string(ev.From)), ev.ID, w.literal(digest[:]), before, orNull(ev.Arrival.MessageID), state, engine.Stamp(federationtest.At(0)), quoted(string(body)), engine.Stamp(ev.ShownAt()))
	if ev.Evidence != nil && ev.Erased == nil {
		fmt.Fprintf(&w.sql, "INSERT INTO evidence (digest, bytes, handoff) VALUES (%s, %s, '%s');\n", w.literal(ev.Evidence.Digest[:]), w.literal(ev.Evidence.Bytes), ev.Handoff)
	}
	entry := federation.Entry{Version: version, State: state, Filed: federationtest.At(0)}
	if err := federation.DecodeJSON(body, &entry.Event); err != nil {
		t.Fatal(err)
	}
	w.entries = append(w.entries, entry)
}

// log adds the steps of one handoff, with the row of the handoff.
func (w *wholeEvents) log(t *testing.T, steps ...federation.Event) {
	t.Helper()
	link := make([]byte, sha256.Size)
	var view federation.View
	for _, ev := range steps {
		view = federationtest.File(ev, view).View
		w.insert(t, ev, view.Version, view.State, link)
		document := ev.DocumentDigest()
		next := sha256.Sum256(slices.Concat(link, document[:]))
		link = next[:]
	}
	if steps[0].Erased != nil {
		view = view.Erase(federationtest.At(90))
	}
	w.views = append(w.views, view)
	text, err := json.Marshal(view)
	if err != nil {
		t.Fatal(err)
	}
	over := 0
	if view.Over {
		over = 1
	}
	fmt.Fprintf(&w.sql, "INSERT INTO handoff (id, version, view, head, state, offerer, over, clock, since, moved) VALUES ('%s', %d, %s, %s, '%s', %s, %d, '%s', %d, %d);\n",
		view.ID, view.Version, quoted(string(text)), w.literal(link), view.State, quoted(string(view.Offerer)), over, view.Clock, engine.Stamp(view.Since), engine.Stamp(view.Moved))
}

// sealed signs a step in a dialect, with one field that no codec knows.
func sealed(t *testing.T, ev federation.Event, d federation.Dialect) federation.Event {
	t.Helper()
	ev.Dialect = d
	ev.Fields, _ = dialect.Write(ev)
	maps.DeleteFunc(ev.Fields, func(_, value string) bool { return value == "" })
	ev.Fields[string(d)+"-x-odd"] = "it's \\ \"odd\" \u2028 \u0000 <b> 🚀"
	ev, err := signing.Seal(t.Context(), federationtest.Signer(ev.From), ev)
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

// manyTexts is more than one page of a conversion.
const manyTexts = 600

// newWholeEvents returns logs in both dialects, an erased handoff, unsigned steps, documents of other forms and many texts.
func newWholeEvents(t *testing.T, literal func([]byte) string) *wholeEvents {
	t.Helper()
	w := &wholeEvents{literal: literal}
	for i, d := range []federation.Dialect{federation.HandoffTags, federation.ActTags} {
		n := 2000 + 10*i
		offer := federationtest.Offer(n, ada, bob)
		offer.Title, offer.Note, offer.Arrival.Name = "it's \"odd\"", "\u2028 \\ 🚀\u0001", "ada's"
		offer = sealed(t, offer, d)
		accept := federationtest.Vouch(federationtest.Step(n+1, offer, federation.Accept, bob), "accept in "+string(d))
		accept.For = ada
		accept = sealed(t, accept, d)
		progress := sealed(t, federationtest.Step(n+2, offer, federation.Progress, bob), d)
		progress.Note = "longer than the signed note"                                                   // as a gateway files it
		complete := federationtest.Step(n+3, offer, federation.Complete, []federation.DID{ada, bob}[i]) // one digest for each signer
		complete.Dialect, complete.Fields, complete.Signature = d, nil, federation.Signature{}          // unsigned
		w.log(t, offer, accept, progress, complete)
		w.insert(t, sealed(t, federationtest.Confirm(n+4, complete), d), 0, federation.Completed, nil)
	}
	other := federationtest.Offer(2040, ada, bob) // its document is no JSON
	gone := sealed(t, federationtest.Offer(2050, ada, bob), federation.HandoffTags)
	declined := federationtest.Vouch(federationtest.Step(2051, gone, federation.Decline, bob), "declined")
	w.log(t, other, federationtest.Step(2041, other, federation.Decline, bob))
	w.log(t, gone.Erase(federationtest.At(90)), declined.Erase(federationtest.At(90)))
	for n := 3000; n < 3000+manyTexts; n++ {
		text := said(n, ada, bob, "", federationtest.ID(2000)).Text
		text.Body = fmt.Sprintf("it's \u2028\u0000 %d", n)
		text, err := signing.SealText(t.Context(), federationtest.Signer(ada), text)
		if err != nil {
			t.Fatal(err)
		}
		row := text.Row()
		if n%100 == 0 {
			row = row.Erase(federationtest.At(90))
		}
		w.insert(t, row, 0, handoffs.TextState, nil)
	}
	return w
}

// signedRules verify steps and text with the keys of the test.
type signedRules struct{ rules }

func (r signedRules) Verify(ctx context.Context, ev federation.Event) error {
	if !strings.HasPrefix(ev.Signature.Document, "{") {
		return r.rules.Verify(ctx, ev)
	}
	return signing.VerifyAgain(ctx, ev, keyOf)
}

func (signedRules) VerifyText(text federation.Text) error { return signing.VerifyText(text, keyOf) }

func keyOf(did federation.DID) (ed25519.PublicKey, error) { return federationtest.Key(did), nil }

// check checks that each event of an upgraded record is unchanged, that its document is stored
// once, and that the chain of each log holds.
func (w *wholeEvents) check(t *testing.T, record *registry.Record, rows func(query string) []string, examine func(fsck.Rules) (fsck.Report, error)) {
	t.Helper()
	report, err := examine(signedRules{})
	if err != nil || report.Events != len(w.entries) {
		t.Errorf("examined: %+v, %v", report, err)
	}
	for _, d := range report.Damage {
		t.Errorf("damage: %v", d)
	}
	for _, want := range w.entries {
		got, err := w.read(t, record, want)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-before +after):\n%s", want.Event.ID, err, diff)
		}
	}
	found := rows(`SELECT e.id || coalesce(' ' || s.did, '') || coalesce(' ' || f.did, '') || coalesce(' ' || r.did, '') || CASE WHEN e.document IS NULL THEN ' no' ELSE ' a' END || ' document'
		FROM event e LEFT JOIN actor s ON s.n = e.signer LEFT JOIN actor f ON f.n = e.author LEFT JOIN actor r ON r.n = e.recipient ORDER BY e.seq`)
	for i, want := range w.entries {
		ev, document := want.Event, "a document"
		if ev.Signature.Document == "" {
			document = "no document"
		}
		if line := strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s %s", ev.ID, ev.From, ev.For, ev.To, document)), " "); found[i] != line {
			t.Errorf("row %d is %q, want %q", i, found[i], line)
		}
	}
	for _, did := range []federation.DID{ada, bob, "did:plc:nobody"} {
		var want []federation.HandoffID
		for _, v := range w.views {
			if slices.Contains(v.Others(""), did) {
				want = append(want, v.ID)
			}
		}
		views, _, err := record.Handoffs(t.Context(), federation.Filter{DIDs: []federation.DID{did}}, "", 10)
		var got []federation.HandoffID
		for _, v := range views {
			got = append(got, v.ID)
		}
		if diff := cmp.Diff(want, got, cmpopts.SortSlices(func(a, b federation.HandoffID) bool { return a.String() < b.String() })); err != nil || diff != "" {
			t.Errorf("handoffs of %s: %v (-want +got):\n%s", did, err, diff)
		}
	}
	for i, body := range rows(`SELECT CAST(e.body AS text) FROM event e ORDER BY e.seq`) {
		if ev := w.entries[i].Event; strings.Contains(body, `"document"`) && ev.Erased == nil || len(body) > 1000 {
			t.Errorf("the body of %s is %s", ev.ID, body)
		}
	}
}

func (w *wholeEvents) read(t *testing.T, record *registry.Record, want federation.Entry) (federation.Entry, error) {
	t.Helper()
	switch {
	case want.State == handoffs.TextState:
		got, err := record.WithMessageID(t.Context(), want.Event.ID.String())
		got.Event, got.Text = got.Row(), nil
		return got, err
	case want.Version > 0:
		return record.Step(t.Context(), want.Event.Handoff, want.Event.ID)
	}
	receipts, err := record.Receipts(t.Context(), want.Event.Handoff)
	if err == nil && len(receipts) != 1 {
		err = errors.New("there is not one receipt")
	}
	if err == nil {
		want.Event = receipts[0]
	}
	return want, err
}

// literals returns a function that writes bytes in the way of a database.
func literals(format string) func([]byte) string {
	return func(text []byte) string { return fmt.Sprintf(format, hex.EncodeToString(text)) }
}
