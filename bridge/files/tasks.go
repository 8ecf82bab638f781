package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"baton/bridge/files/directory"
	"baton/bridge/stepbuilder"
	"baton/federation"
	"baton/translate"
	"baton/translate/taskfile"
)

// claimant is the name under which the gateway claims records.
const claimant = "baton"

// writingTime is for how long a record that cannot be read may be one that a program writes in
// place.
const writingTime = time.Second

// TasksLink is one ".handoffs" directory.
type TasksLink struct {
	*base

	cfg   TasksConfig
	dir   directory.Tasks
	found map[string]task // by file name; the goroutine in Run owns it
}

// task is what the link knows of a record that it has read.
type task struct {
	stamp   directory.Stamp
	digest  [32]byte
	handoff federation.HandoffID // zero for a record that became no handoff
	ours    bool                 // the gateway wrote it
	refused [32]byte             // digest of the content that was counted as not taken
	again   bool                 // the record has to be read again at the next rescan
}

func newTasksLink(cfg TasksConfig, b *base) *TasksLink {
	return &TasksLink{base: b, cfg: cfg, dir: directory.Tasks{Path: cfg.Dir}}
}

// Run implements [bridge.Link]. It watches the directory until ctx ends or the directory is away.
func (l *TasksLink) Run(ctx context.Context, up func()) error {
	l.found = map[string]task{}
	return l.serve(ctx, up, l.cfg.Dir, l)
}

// prepare implements tree.
func (l *TasksLink) prepare() ([]string, error) {
	_, err := directory.FolderAt(l.cfg.Dir)
	return []string{l.cfg.Dir}, err
}

// scan implements tree.
func (l *TasksLink) scan(ctx context.Context) error {
	there := make(map[string]bool, len(l.found))
	claims := false
	err := directory.Each(l.cfg.Dir, func(name string, stamp directory.Stamp) error {
		if !directory.IsRecord(name) {
			claims = claims || directory.IsClaim(name)
			return nil
		}
		there[name] = true
		if was, known := l.found[name]; known && was.stamp == stamp && !was.again {
			return nil
		}
		return l.look(ctx, filepath.Join(l.cfg.Dir, name))
	})
	if err == nil && claims {
		err = l.dir.Recover(time.Now())
	}
	if err != nil {
		return l.broken(ctx, err)
	}
	for name := range l.found {
		if there[name] {
			continue
		}
		if err := l.look(ctx, filepath.Join(l.cfg.Dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// look implements tree.
func (l *TasksLink) look(ctx context.Context, path string) error {
	name := filepath.Base(path)
	if !directory.IsRecord(name) {
		return nil
	}
	stamp, err := directory.Stat(path)
	was, known := l.found[name]
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return l.gone(ctx, name)
	case err != nil:
		return broken(err)
	case known && was.stamp == stamp && !was.again:
		return nil
	}
	was.stamp, was.again = stamp, false
	l.found[name] = was
	item, err := l.dir.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the next look decides
	}
	if errors.Is(err, taskfile.ErrUnreadable) && time.Since(time.Unix(0, stamp.Modified)) < writingTime {
		was.again = true // a program may be writing it
		l.found[name] = was
		return nil
	}
	if err != nil {
		l.refuse(ctx, name, sha256.Sum256(item.Raw), reasonOf(err), err)
		return nil
	}
	if err := l.judge(ctx, name, item); err != nil {
		was = l.found[name]
		was.again = true
		l.found[name] = was
		return l.fault(ctx, path, err)
	}
	return nil
}

func reasonOf(err error) string {
	if odd, ok := errors.AsType[*directory.OddError](err); ok {
		return odd.Reason
	}
	return "record"
}

// refuse counts a record that is not taken, once for each content.
func (l *TasksLink) refuse(ctx context.Context, name string, digest [32]byte, reason string, err error) {
	seen := l.found[name]
	if seen.refused == digest && digest != [32]byte{} {
		return
	}
	seen.refused = digest
	l.found[name] = seen
	l.unread(ctx, name, reason, err)
}

// judge does what is due about a record.
func (l *TasksLink) judge(ctx context.Context, name string, item directory.Task) error {
	digest := sha256.Sum256(item.Raw)
	seen := l.found[name]
	if seen.digest == digest && !seen.handoff.IsZero() {
		return nil // this is what the link wrote, or has judged
	}
	view, s, ours, err := l.handoffOf(ctx, item.Record)
	if err != nil {
		return err
	}
	if !view.Exists() || view.State == federation.Failed && item.Status == taskfile.Offered {
		return l.offerRecord(ctx, name, item, view, s)
	}
	seen.handoff, seen.ours = view.ID, ours
	l.found[name] = seen
	if err := l.report(ctx, name, item, view); err != nil {
		return err
	}
	seen = l.found[name]
	seen.digest = digest
	l.found[name] = seen
	if view.Over && view.State != federation.Failed && !ours {
		return l.release(ctx, s, time.Now())
	}
	return nil
}

// handoffOf returns the handoff of a record: for one that the gateway wrote, that of its note;
// for any other, that of its slot. The view is zero for a record that is no handoff yet.
func (l *TasksLink) handoffOf(ctx context.Context, r taskfile.Record) (view federation.View, s slot, ours bool, err error) {
	if id, notULID := federation.ParseEventID(r.Fed().ID); notULID == nil {
		if view, err = l.view(ctx, id); err != nil {
			return view, s, false, err
		}
		root, err := l.rootOf(ctx, view)
		if err != nil {
			return view, s, false, err
		}
		if view.Exists() && taskfile.TaskID(l.name, root) == r.ID {
			return l.latest(ctx, r, view)
		}
	}
	if !slices.Contains(l.cfg.Trusted, r.From) {
		return federation.View{}, s, false, nil
	}
	if s, err = l.slotOf(ctx, r); err != nil {
		return federation.View{}, s, false, err
	}
	view, err = l.view(ctx, s.Event)
	return view, s, false, err
}

// latest returns the handoff of a record that the gateway wrote: after an agent of the directory
// offered the failed task again, the new one.
func (l *TasksLink) latest(ctx context.Context, r taskfile.Record, view federation.View) (federation.View, slot, bool, error) {
	if view.State != federation.Failed || r.Status == taskfile.Failed {
		return view, slot{}, true, nil
	}
	s, err := l.slotOf(ctx, r)
	if err != nil {
		return view, s, true, err
	}
	next, err := l.view(ctx, s.Event)
	if err == nil && next.Exists() && next.Replaces == view.ID {
		return next, s, false, nil
	}
	return view, s, true, err
}

// taskKey names a record in the record of the gateway.
func taskKey(id string) string { return "task\x00" + id }

// slotOf returns the slot of a record. One that is not offered needs none if it has none.
func (l *TasksLink) slotOf(ctx context.Context, r taskfile.Record) (slot, error) {
	if r.Status != taskfile.Offered {
		return l.glance(ctx, taskKey(r.ID))
	}
	return l.reserve(ctx, taskKey(r.ID), [32]byte{}, nil, time.Now().Add(kept))
}

// maxRevivals bounds a chain of handoffs that replace each other in one record.
const maxRevivals = 64

// rootOf returns the first of the handoffs that share a record: each revives the failed one
// before it.
func (l *TasksLink) rootOf(ctx context.Context, view federation.View) (federation.HandoffID, error) {
	for range maxRevivals {
		if view.Replaces.IsZero() {
			break
		}
		before, err := l.view(ctx, view.Replaces)
		if err != nil {
			return view.ID, err
		}
		if before.State != federation.Failed || before.Offeree != view.Offeree || before.Offerer != view.Offerer {
			break
		}
		view = before
	}
	return view.ID, nil
}

// offerRecord offers a record. A record of an agent that is not trusted, one to an agent that has no
// DID but the directory, and one that was worked on already stay as they are.
func (l *TasksLink) offerRecord(ctx context.Context, name string, item directory.Task, before federation.View, s slot) error {
	if item.Status != taskfile.Offered {
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
	if before.Exists() { // offered again: a new handoff, that names the one before
		s.Body = []byte(before.ID.String())
		if s, err = l.remint(ctx, s); err != nil {
			return err
		}
	}
	replaces, _ := federation.ParseEventID(string(s.Body)) // a first offer replaces none
	text, losses := title(item.Description)
	for _, loss := range losses {
		l.reportLoss(ctx, s.Event, loss)
	}
	s, err = l.offer(ctx, s, stepbuilder.Draft{
		From: from, To: to, Title: text, Context: item.Context(), Replaces: replaces, Original: string(item.Raw),
	}, item.From)
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		l.refuse(ctx, name, sha256.Sum256(item.Raw), "refused", refused)
		return nil
	}
	if err != nil {
		return err
	}
	seen := l.found[name]
	seen.handoff, seen.ours, seen.digest = s.Event, false, sha256.Sum256(item.Raw)
	l.found[name] = seen
	return nil
}

// parties returns the DIDs of a record, and whether it leaves the directory: an offer to an agent
// that the directory alone knows does not.
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

// gone does what is due about a record that is not in its place. It may be claimed: then the
// record comes back. A deleted offer is taken back, where the directory itself is still there.
func (l *TasksLink) gone(ctx context.Context, name string) error {
	seen, known := l.found[name]
	if !known || l.claimed(name) {
		return nil
	}
	if seen.handoff.IsZero() {
		delete(l.found, name)
		return nil
	}
	view, err := l.view(ctx, seen.handoff)
	if err != nil {
		return l.fault(ctx, name, err)
	}
	if !seen.ours && (view.State == federation.Offered || view.State == federation.Open) {
		err := l.submit(ctx, stepbuilder.Draft{
			From: view.Offerer, Verb: federation.Cancel, Note: "the record was deleted", Original: name,
		}, view, "")
		if _, refused := errors.AsType[*federation.RefusalError](err); err != nil && !refused {
			return l.fault(ctx, name, err)
		}
	} else if !view.Over {
		l.log.LogAttrs(ctx, slog.LevelWarn, "record deleted while its handoff goes on", slog.String("file", name), slog.String("handoff_id", view.ID.String()))
	}
	if err := l.releaseRecord(ctx, name); err != nil {
		return l.fault(ctx, name, err)
	}
	delete(l.found, name)
	return nil
}

// releaseRecord releases the slot of a deleted record.
func (l *TasksLink) releaseRecord(ctx context.Context, name string) error {
	s, err := l.glance(ctx, taskKey(strings.TrimSuffix(name, filepath.Ext(name))))
	if err != nil {
		return err
	}
	return l.release(ctx, s, time.Now())
}

// claimed reports whether a record that is not in its place is being changed.
func (l *TasksLink) claimed(name string) bool {
	id := name[:len(name)-len(filepath.Ext(name))]
	_, err := l.dir.Find(id)
	_, changing := errors.AsType[*directory.RefusedError](err)
	return err == nil || changing
}

// report files the steps that the status of a record stands for, beyond the state of its handoff.
func (l *TasksLink) report(ctx context.Context, name string, item directory.Task, view federation.View) error {
	verbs, legal := taskfile.Verbs(view.State, item.Status)
	if legal && len(verbs) == 0 && view.State != federation.Assigned {
		return nil
	}
	agent, err := l.actor(ctx, item.Record, view)
	if err != nil {
		return err
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
			if view, err = l.view(ctx, view.ID); err != nil {
				return err
			}
			return l.conflict(ctx, name, item, view, "refused: "+string(refused.Code))
		}
		if err != nil {
			return err
		}
		if view, err = l.view(ctx, view.ID); err != nil {
			return err
		}
	}
	return nil
}

// actor returns the DID that a record names as its recipient, "" where that is not the party of
// the handoff: another agent may not take or end the work of a party.
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
	if party != "" && named != party && !l.ports.Gateway.Same(ctx, named, party) {
		return "", nil
	}
	if party != "" && l.native(named) == "" {
		return party, nil
	}
	return named, nil
}

// conflict counts a change that the handoff does not follow, and restores a record that the
// gateway wrote, or that names another assignee than the first one.
func (l *TasksLink) conflict(ctx context.Context, name string, item directory.Task, view federation.View, why string) error {
	l.refuse(ctx, name, sha256.Sum256(item.Raw), "conflict", errors.New(why))
	if !l.found[name].ours && view.State != federation.Assigned {
		return nil
	}
	return l.write(ctx, item.ID, view, nil)
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

// writeOffer writes the record of an offer, unless it is there already. An offer that revives a
// failed handoff reuses the record of that.
func (l *TasksLink) writeOffer(ctx context.Context, s translate.Step) error {
	if l.recordOf(s.Event.Handoff) != "" || s.View.Over {
		return nil
	}
	from, err := l.nameOf(ctx, s.Event.Actor())
	if err != nil {
		return err
	}
	if from == "" {
		from = string(s.Event.Actor())
	}
	to, err := l.nameOf(ctx, s.Event.To)
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
	r, err := taskfile.Encode(l.name, from, to, s)
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
	item, err := l.dir.Change(id, claimant, func(r taskfile.Record) (taskfile.Record, error) {
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
		return r.WithFed(keepOffer(r.Fed(), taskfile.FedOf(*step)))
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
