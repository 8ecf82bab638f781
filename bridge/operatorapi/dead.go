package operatorapi

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"baton/federation"
)

// DeadLetter is a delivery that was given up. In a list it has no attempts and no raw
// bytes.
type DeadLetter struct {
	ID        int64                 `json:"id"`
	Link      string                `json:"link,omitempty"`
	Peer      string                `json:"peer,omitempty"` // another registry
	Reason    federation.DeadReason `json:"reason"`
	LastError string                `json:"last_error"`
	EventID   federation.EventID    `json:"event_id,omitzero"`
	HandoffID federation.HandoffID  `json:"handoff_id,omitzero"`
	Verb      federation.Verb       `json:"verb,omitempty"`
	Message   string                `json:"message,omitempty"` // id of the message that a registry was owed
	Attempt   int                   `json:"attempt"`
	Queued    Moment                `json:"queued"`
	Died      Moment                `json:"died"`
	Replayed  Moment                `json:"replayed,omitzero"`

	*DeadDetail
}

// DeadDetail is what one dead letter says of itself when it is read alone.
type DeadDetail struct {
	Verdict   string `json:"verdict"` // on the signature, when it was filed; "" where it cannot be read
	Raw       string `json:"raw"`     // what was signed, or the document of a message; base64 where it is not UTF-8
	Signature string `json:"signature,omitempty"`
	Attempts  []Try  `json:"attempts"` // the last of them
	Fix       string `json:"fix"`      // what may be done about it
	Broken    string `json:"broken,omitempty"`
}

// Try is one attempt that failed.
type Try struct {
	Number int    `json:"number"`
	Time   Moment `json:"time"`
	Error  string `json:"error"`
}

// deadLetters is GET dead, the newest first.
func (o *Operator) deadLetters(r *http.Request) (listing, error) {
	query := r.URL.Query()
	if err := known(query, "reason", "peer"); err != nil {
		return listing{}, err
	}
	f := federation.DeadFilter{Reason: federation.DeadReason(query.Get("reason")), To: query.Get("peer")}
	if f.Reason != "" && !slices.Contains(federation.DeadReasons(), f.Reason) {
		return listing{}, usage(fmt.Sprintf("reason: want one of %v", federation.DeadReasons()))
	}
	page := func(ctx context.Context, cursor string, limit int) (any, error) {
		before, err := parseNumber("cursor", cursor)
		if err != nil {
			return nil, err
		}
		found, err := o.deps.Record.DeadLetters(ctx, f, before, limit)
		p := Page[DeadLetter]{Items: []DeadLetter{}}
		for _, d := range found {
			p.Items = append(p.Items, shapeDead(d))
		}
		if len(found) == limit {
			p.NextCursor = strconv.FormatInt(found[limit-1].ID, 10)
		}
		return p, err
	}
	return listing{page, watchPage(page, func(d DeadLetter) DeadLetter { return d })}, nil
}

// parseNumber reads a number of a request; "" is 0.
func parseNumber(name, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, usage(name + ": want a number")
	}
	return n, nil
}

func shapeDead(d federation.DeadLetter) DeadLetter {
	shaped := DeadLetter{
		ID: d.ID, Link: d.To, Reason: d.Reason, LastError: d.Why, EventID: d.Event, HandoffID: d.Handoff, Verb: d.Verb, Message: d.Message,
		Attempt: d.Attempt, Queued: Moment(d.Queued), Died: Moment(d.Died), Replayed: Moment(d.Replayed),
	}
	if d.ToPeer {
		shaped.Link, shaped.Peer = "", d.To
	}
	return shaped
}

// getDead answers GET dead/{id}.
func (o *Operator) getDead(r *http.Request) (answer, error) {
	if err := known(r.URL.Query()); err != nil {
		return answer{}, err
	}
	id, err := parseNumber("id", r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	d, err := o.dead(r.Context(), id)
	if err != nil {
		return answer{}, err
	}
	shaped := shapeDead(d)
	shaped.DeadDetail = &DeadDetail{
		Verdict: federation.Valid.String(), // nothing else is filed
		Raw:     printable(d.Raw), Signature: d.Signature, Attempts: []Try{}, Fix: d.Reason.Fix(), Broken: d.Broken,
	}
	if d.Broken != "" {
		shaped.Verdict = ""
	}
	for _, t := range d.Tries {
		shaped.Attempts = append(shaped.Attempts, Try{Number: t.Number, Time: Moment(t.At), Error: t.Reason})
	}
	return answer{body: shaped}, nil
}

// postDead answers POST dead/{id}/{verb}: replay and drop, of one or of "all".
func (o *Operator) postDead(r *http.Request) (answer, error) {
	text, verb := r.PathValue("id"), r.PathValue("verb")
	act := map[string]func(ctx context.Context, id int64, dry bool) (bool, error){"replay": o.replay, "drop": o.dropDead}[verb]
	if act == nil {
		return answer{}, errNone("verb " + verb + " of dead letters")
	}
	var ask Act
	if err := readBody(r, &ask); err != nil {
		return answer{}, err
	}
	ids, err := o.deadIDs(r.Context(), text)
	if err != nil {
		return answer{}, err
	}
	changed := 0
	for _, id := range ids {
		did, err := act(r.Context(), id, ask.DryRun)
		if _, told := errors.AsType[*ProblemError](err); told && text == "all" {
			continue // gone in between, or nothing that can be replayed: the others can
		}
		if err != nil && changed > 0 {
			_ = o.acted(r, "dead "+verb, text, ask, changed)
		}
		if err != nil {
			return answer{}, err
		}
		if did {
			changed++
		}
	}
	return o.acted(r, "dead "+verb, text, ask, changed), nil
}

// deadIDs returns the dead letters that a request names.
func (o *Operator) deadIDs(ctx context.Context, text string) ([]int64, error) {
	if text != "all" {
		id, err := parseNumber("id", text)
		return []int64{id}, err
	}
	var ids []int64
	for before := int64(0); ; {
		page, err := o.deps.Record.DeadLetters(ctx, federation.DeadFilter{}, before, MaxLimit)
		if err != nil || len(page) == 0 {
			return ids, err
		}
		for _, d := range page {
			ids = append(ids, d.ID)
		}
		before = page[len(page)-1].ID
	}
}

// dead returns a dead letter.
func (o *Operator) dead(ctx context.Context, id int64) (federation.DeadLetter, error) {
	d, err := o.deps.Record.DeadLetter(ctx, id)
	if isNotFound(err) {
		err = errNone("dead letter " + strconv.FormatInt(id, 10))
	}
	return d, err
}

// replay puts a dead letter back, and returns false for one that was put back before.
func (o *Operator) replay(ctx context.Context, id int64, dry bool) (bool, error) {
	d, err := o.dead(ctx, id)
	switch {
	case err != nil:
		return false, err
	case d.Broken != "":
		return false, conflict(fmt.Sprintf("dead letter %d cannot be read: %s", id, d.Broken))
	case dry:
		return d.Replayed.IsZero(), nil
	}
	revived, err := o.deps.Record.Revive(ctx, id, time.Now())
	if revived {
		o.wake(d.To)
	}
	return revived, err
}

// dropDead forgets a dead letter.
func (o *Operator) dropDead(ctx context.Context, id int64, dry bool) (bool, error) {
	if _, err := o.dead(ctx, id); err != nil || dry {
		return err == nil, err
	}
	err := o.deps.Record.Discard(ctx, id, time.Now())
	if isNotFound(err) {
		return false, nil // somebody else did
	}
	return err == nil, err
}

// printable returns bytes as JSON can have them.
func printable(raw []byte) string {
	if utf8.Valid(raw) {
		return string(raw)
	}
	return "base64:" + base64.StdEncoding.EncodeToString(raw)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
