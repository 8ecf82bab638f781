package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"baton/bridge/files/directory"
	"baton/federation"
	"baton/translate"
	"baton/translate/taskfile"
)

// claimant returns the name under which this gateway claims records, which no other gateway uses.
func (l *TasksLink) claimant() string {
	sum := sha256.Sum256([]byte(l.ports.Home))
	return "baton_" + hex.EncodeToString(sum[:4])
}

// Carries implements [bridge.Link]: an offer to a DID with a name in the directory that did not
// come from there, and the later steps of handoffs with a party there.
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

// Deliver implements [bridge.Link]. An offer becomes a record, and any other step changes the
// record of its handoff. It returns nil after that is on disk.
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

// writeStep writes a step into a record. A record that was deleted needs none.
func (l *TasksLink) writeStep(ctx context.Context, id string, step translate.Step) error {
	err := l.write(ctx, id, step.View, &step)
	if gone, ok := errors.AsType[*directory.NotFoundError](err); ok {
		l.log.LogAttrs(ctx, slog.LevelWarn, "step of a deleted record", slog.String("handoff_id", step.View.ID.String()), slog.Any("err", gone))
		return nil
	}
	return err
}

// recordOf returns the task_id of the record of a handoff, "" for none.
func (l *TasksLink) recordOf(id federation.HandoffID) string {
	for name, seen := range l.found {
		if seen.handoff == id {
			return name[:len(name)-len(filepath.Ext(name))]
		}
	}
	return ""
}

// elsewhere reports whether another gateway claimed a record of a handoff.
func (l *TasksLink) elsewhere(id federation.HandoffID) bool {
	for _, seen := range l.found {
		if seen.elsewhere == id {
			return true
		}
	}
	return false
}

// writeOffer writes the record of an offer, unless it is there already. An offer that revives a
// failed handoff reuses the record of that.
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

// write gives a record the status of its handoff. The step is the one that led there, nil where
// the gateway restores the record.
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

// keepOffer returns a note with what an earlier one said about the offer.
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
