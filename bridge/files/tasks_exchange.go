package files

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/files/directory"
	"github.com/baton-gateway/baton/bridge/stepbuilder"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/taskfile"
)

// The name is unique to this gateway.
func (l *TasksLink) claimant() string {
	sum := sha256.Sum256([]byte(l.ports.Home))
	return "baton_" + hex.EncodeToString(sum[:4])
}

// Carries implements [bridge.Link]. The link carries offers from outside the directory to a DID named
// in it, and later steps of handoffs with such a party.
func (l *TasksLink) Carries(ctx context.Context, ev federation.Event, after federation.View) (bool, error) {
	if ev.Arrival.Link == l.name || ev.Verb == federation.Confirm {
		return false, nil
	}
	parties := []federation.DID{after.Offerer, after.Offeree}
	if ev.Verb == federation.Offer {
		parties = []federation.DID{after.Offeree}
	}
	for _, did := range parties {
		if did == "" {
			continue
		}
		if name, err := l.nameOf(ctx, did); err != nil || name != "" {
			return name != "", err
		}
	}
	return false, nil
}

// Deliver implements [bridge.Link]. An offer creates a record; any other step changes the record of its
// handoff. It returns nil once the change is on disk.
func (l *TasksLink) Deliver(ctx context.Context, d federation.Delivery) error {
	return l.ask(ctx, func(ctx context.Context) error {
		step := translate.Step{Entry: d.Entry, View: d.View}
		if d.Entry.Event.Verb == federation.Offer {
			if err := l.writeOffer(ctx, step); err != nil {
				return err
			}
		} else if id := l.recordOf(d.View.ID); id != "" {
			if err := l.writeStep(ctx, id, step); err != nil {
				return err
			}
		}
		return l.lapse(ctx, d, d.View.Others(d.Entry.Event.Actor())...)
	})
}

func (l *TasksLink) writeStep(ctx context.Context, id string, step translate.Step) error {
	err := l.write(ctx, id, step.View, &step)
	if gone, ok := errors.AsType[*directory.NotFoundError](err); ok {
		l.log.LogAttrs(ctx, slog.LevelWarn, "step of a deleted record", slog.String("handoff_id", step.View.ID.String()), slog.Any("err", gone))
		return nil
	}
	return err
}

func (l *TasksLink) recordOf(id federation.HandoffID) string {
	for name, seen := range l.found {
		if seen.handoff == id {
			return name[:len(name)-len(filepath.Ext(name))]
		}
	}
	return ""
}

func (l *TasksLink) elsewhere(id federation.HandoffID) bool {
	for _, seen := range l.found {
		if seen.elsewhere == id {
			return true
		}
	}
	return false
}

// writeOffer does nothing if the record already exists. An offer that revives a failed handoff
// reuses its record.
func (l *TasksLink) writeOffer(ctx context.Context, s translate.Step) error {
	if l.recordOf(s.Event.Handoff) != "" || s.View.Over {
		return nil
	}
	if s.View.Home != l.ports.Home { // another gateway may have claimed a record of this directory for it
		if err := l.scan(ctx); err != nil {
			return err
		}
	}
	if l.elsewhere(s.Event.Handoff) {
		return nil
	}
	from, err := l.nameOf(ctx, s.Event.Actor())
	if err != nil {
		return err
	}
	if from == "" {
		from = string(s.Event.Actor())
	}
	to, err := l.nameOf(ctx, s.Event.Offeree())
	if err != nil {
		return err
	}
	root, err := l.rootOf(ctx, s.View)
	if err != nil {
		return err
	}
	if id := taskfile.TaskID(l.name, root); root != s.View.ID {
		err := l.write(ctx, id, s.View, &s)
		if _, gone := errors.AsType[*directory.NotFoundError](err); !gone {
			return err
		}
	}
	r, err := taskfile.Encode(l.ports.Home, l.name, from, to, s)
	if err != nil {
		return err
	}
	_, err = l.dir.Create(r)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return broken(err)
	}
	return l.look(ctx, l.dir.PathOf(r.ID))
}

// The step is the cause of the change, or nil if the gateway restores the record.
func (l *TasksLink) write(ctx context.Context, id string, view federation.View, step *translate.Step) error {
	assignee, err := l.nameOf(ctx, view.Assignee)
	if err != nil {
		return err
	}
	if assignee == "" {
		assignee = string(view.Assignee)
	}
	item, err := l.dir.Change(id, l.claimant(), func(r taskfile.Record) (taskfile.Record, error) {
		if status := taskfile.StatusOf(view.State, r.Status); status != r.Status {
			r = r.Moved(status, time.Now())
		}
		if assignee != "" && r.To != assignee {
			r = r.For(assignee)
		}
		if step == nil {
			step = &translate.Step{Entry: federation.Entry{Event: federation.Event{}}, View: view}
		}
		step.View = view
		return r.WithFed(keepOffer(r.Fed(), taskfile.FedOf(l.ports.Home, *step)))
	})
	if _, busy := errors.AsType[*directory.RefusedError](err); busy {
		return away(l.name, err)
	}
	if _, gone := errors.AsType[*directory.NotFoundError](err); gone || errors.Is(err, taskfile.ErrUnreadable) {
		return err
	}
	if err != nil {
		return broken(err)
	}
	name := id + ".json"
	seen := l.found[name]
	seen.handoff, seen.digest = view.ID, sha256.Sum256(item.Raw)
	l.found[name] = seen
	return nil
}

// keepOffer returns the new note with the members of the offer from the earlier note.
func keepOffer(was, is taskfile.Fed) taskfile.Fed {
	if was.ID == is.ID {
		is.Context, is.Hash, is.Evidence = was.Context, was.Hash, was.Evidence
		if is.Result == nil {
			is.Result = was.Result
		}
	}
	if raw, ok := is.Result.(json.RawMessage); ok && !bytes.Equal(raw, nil) && !json.Valid(raw) {
		is.Result = string(raw)
	}
	return is
}

// offerRecord ignores a record of an untrusted agent, a record for an agent known only to the
// directory, and a record already in progress.
func (l *TasksLink) offerRecord(ctx context.Context, name string, item directory.Task, before federation.View, s slot) error {
	if item.Status != taskfile.Offered || l.found[name].refused == sha256.Sum256(item.Raw) {
		return nil
	}
	if !slices.Contains(l.cfg.Trusted, item.From) {
		l.refuse(ctx, name, sha256.Sum256(item.Raw), "untrusted", fmt.Errorf("%q may not create offers here", item.From))
		return nil
	}
	from, to, leaves, err := l.parties(ctx, item.Record)
	if err != nil || !leaves {
		return err
	}
	if before.Exists() { // offered again: a new handoff that names the earlier one
		s.Body = []byte(before.ID.String())
		if s, err = l.remint(ctx, s); err != nil {
			return err
		}
	}
	original := string(item.Raw)
	item, mine, err := l.claim(ctx, name, item, s.Event)
	if err != nil || !mine {
		return err // retried at the next rescan
	}
	replaces, _ := federation.ParseEventID(string(s.Body)) // a first offer replaces none
	caps, deadline, losses := item.Terms()
	for _, loss := range losses {
		l.reportLoss(ctx, s.Event, loss)
	}
	s, err = l.offer(ctx, s, stepbuilder.Draft{
		From: from, To: to, Title: titled(item.Description), Context: item.Context(), Caps: caps, Deadline: deadline, Replaces: replaces,
		Original: original,
	}, item.From)
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		l.refuse(ctx, name, sha256.Sum256(item.Raw), "refused", refused)
		return nil
	}
	if err != nil {
		return err
	}
	seen := l.found[name]
	seen.handoff, seen.ours = s.Event, false
	l.found[name] = seen
	_, _, err = l.claim(ctx, name, item, s.Event) // a retried offer may have a later ID
	return err
}

// The result leaves is false for an offer to an agent known only to the directory.
func (l *TasksLink) parties(ctx context.Context, r taskfile.Record) (from, to federation.DID, leaves bool, err error) {
	if from, err = l.didOf(ctx, r.From); err != nil || r.To == "" {
		return from, "", err == nil, err
	}
	if did, notDID := federation.ParseDID(r.To); notDID == nil {
		return from, did, did != from, nil
	}
	to, err = l.didOf(ctx, r.To)
	return from, to, l.native(to) == "" && to != from, err
}

// A claimed record reappears. A deleted offer is cancelled if the directory itself still exists.
func (l *TasksLink) gone(ctx context.Context, name string) error {
	seen, known := l.found[name]
	if !known || l.claimed(name) {
		return nil
	}
	if err := l.here(); err != nil {
		return err
	}
	s, err := l.glance(ctx, taskKey(strings.TrimSuffix(name, filepath.Ext(name))))
	if err != nil {
		return l.fault(ctx, name, err)
	}
	if seen.handoff.IsZero() {
		seen.handoff = s.Event // the record may be deleted between the reservation and the offer
	}
	view, err := l.view(ctx, seen.handoff)
	switch {
	case err != nil:
		return l.fault(ctx, name, err)
	case !view.Exists() || view.Over:
	case !seen.ours && (view.State == federation.Offered || view.State == federation.Open):
		err := l.submit(ctx, stepbuilder.Draft{
			From: view.Offerer, Verb: federation.Cancel, Note: "the record was deleted", Original: name,
		}, view, "")
		if _, refused := errors.AsType[*federation.RefusalError](err); err != nil && !refused {
			return l.fault(ctx, name, err)
		}
	default:
		l.log.LogAttrs(ctx, slog.LevelWarn, "record deleted while its handoff goes on", slog.String("file", name), slog.String("handoff_id", view.ID.String()))
	}
	if err := l.release(ctx, s, time.Now()); err != nil {
		return l.fault(ctx, name, err)
	}
	delete(l.found, name)
	return nil
}

func (l *TasksLink) claimed(name string) bool {
	id := name[:len(name)-len(filepath.Ext(name))]
	_, err := l.dir.Find(id)
	_, changing := errors.AsType[*directory.RefusedError](err)
	return err == nil || changing
}

// report files the steps by which the status of a record is ahead of its handoff, after the steps of
// its agent that wait for the home of the handoff.
func (l *TasksLink) report(ctx context.Context, name string, item directory.Task, view federation.View) error {
	agent, err := l.actor(ctx, item.Record, view)
	if err != nil {
		return err
	}
	party := cmp.Or(view.Assignee, view.Offeree, agent)
	if view, err = l.expected(ctx, view.ID, party); err != nil {
		return err
	}
	verbs, legal := taskfile.Verbs(view.State, item.Status)
	if legal && len(verbs) == 0 && view.State != federation.Assigned {
		return nil
	}
	if !legal || agent == "" {
		return l.conflict(ctx, name, item, view, fmt.Sprintf("status %s by %q of a handoff that is %s", item.Status, item.To, view.State))
	}
	for i, verb := range verbs {
		note := ""
		if i+1 < len(verbs) {
			note = "inferred from a later status"
		}
		err := l.submit(ctx, stepbuilder.Draft{From: agent, Verb: verb, Note: note, Original: string(item.Raw)}, view, item.To)
		if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
			if view, err = l.expected(ctx, view.ID, party); err != nil {
				return err
			}
			return l.conflict(ctx, name, item, view, "refused: "+string(refused.Code))
		}
		if err != nil {
			return err
		}
		if view, err = l.expected(ctx, view.ID, party); err != nil {
			return err
		}
	}
	return nil
}

// Only the party of the handoff may take or end its work. For any other recipient, actor returns
// "".
func (l *TasksLink) actor(ctx context.Context, r taskfile.Record, view federation.View) (federation.DID, error) {
	party := view.Assignee
	if party == "" {
		party = view.Offeree
	}
	if r.To == "" {
		return "", nil
	}
	named, notDID := federation.ParseDID(r.To)
	if notDID != nil {
		var err error
		if named, err = l.didOf(ctx, r.To); err != nil {
			return "", err
		}
	}
	if party != "" {
		if same, err := l.ports.Gateway.Same(ctx, named, party); err != nil || !same {
			return "", err
		}
	}
	if party != "" && l.native(named) == "" {
		return party, nil
	}
	return named, nil
}

// conflict restores a record written by the gateway, or with a changed assignee.
func (l *TasksLink) conflict(ctx context.Context, name string, item directory.Task, view federation.View, why string) error {
	l.refuse(ctx, name, sha256.Sum256(item.Raw), "conflict", errors.New(why))
	if !l.found[name].ours && view.State != federation.Assigned {
		return nil
	}
	return l.write(ctx, item.ID, view, nil)
}
