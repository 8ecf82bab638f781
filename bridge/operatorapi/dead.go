package operatorapi

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// deadLetters returns the list of dead letters, the newest first.
func (o *Operator) deadLetters(_ context.Context, query contract.DeadQuery) (listing[DeadLetter], error) {
	f := federation.DeadFilter{Reason: federation.DeadReason(query.Reason), To: query.Peer}
	if f.Reason != "" && !slices.Contains(federation.DeadReasons(), f.Reason) {
		return listing[DeadLetter]{}, usage(fmt.Sprintf("reason: want one of %v", federation.DeadReasons()))
	}
	page := func(ctx context.Context, cursor string, limit int) (Page[DeadLetter], error) {
		before, err := parseNumber("cursor", cursor)
		if err != nil {
			return Page[DeadLetter]{}, err
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
	return listing[DeadLetter]{page, watchPage(page)}, nil
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

func (o *Operator) getDead(ctx context.Context, in contract.ByID) (DeadLetter, error) {
	id, err := parseNumber("id", in.ID)
	if err != nil {
		return DeadLetter{}, err
	}
	d, err := o.dead(ctx, id)
	if err != nil {
		return DeadLetter{}, err
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
	return shaped, nil
}

// settleDead settles one dead letter, or each with the ID "all".
func (o *Operator) settleDead(ctx context.Context, in contract.IDChange) (Acted, error) {
	text, verb := in.ID, in.Verb
	act := map[string]func(ctx context.Context, id int64, dry bool) (bool, error){"replay": o.replay, "drop": o.dropDead}[verb]
	if act == nil {
		return Acted{}, errNone("verb " + verb + " of dead letters")
	}
	ask, err := in.Body.Read()
	if err != nil {
		return Acted{}, err
	}
	ids, err := o.deadIDs(ctx, text)
	if err != nil {
		return Acted{}, err
	}
	changed := 0
	for _, id := range ids {
		did, err := act(ctx, id, ask.DryRun)
		if _, told := errors.AsType[*ProblemError](err); told && text == "all" {
			continue // gone in between, or nothing that can be replayed: the others can
		}
		if err != nil && changed > 0 {
			_ = o.acted(ctx, "dead "+verb, text, ask, changed)
		}
		if err != nil {
			return Acted{}, err
		}
		if did {
			changed++
		}
	}
	return o.acted(ctx, "dead "+verb, text, ask, changed), nil
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
		return false, nil // another operator did
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
