package store_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// twins are a record and its model, to which the same things happen.
type twins struct {
	ctx     context.Context
	t       *rapid.T
	record  *registry.Record
	open    func() (*registry.Record, error)
	model   *inboxModel
	clock   int
	handoff map[int]federation.Filing  // the newest filing of each, by number
	holds   [2][]federation.LeaseToken // of the record, of the model
	cursors [2][]federation.Cursor
}

// outcome is the answer that both must give: without their own cursors.
type outcome struct {
	Events     []federation.EventID
	Numbers    []uint64
	Deliveries []int
	Devices    []federation.Device
	Delivered  []federation.Delivered
	Notices    []federation.NoticeKind
	N          int
	Size       int64
	Err        string
}

// class names an error as its callers tell errors apart.
func class(err error) string {
	for _, known := range []error{
		federation.ErrLeaseLost, federation.ErrTooManyDevices, federation.ErrNotFound, federation.ErrUnknownCursor, federation.ErrStale,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		return string(refused.Code)
	}
	if err != nil {
		return "unknown: " + err.Error()
	}
	return ""
}

// both does one thing to the record and to its model. The argument which of do selects the copies
// whose cursors it may use.
func (w *twins) both(what string, do func(record modelled, which int) outcome) {
	w.t.Helper()
	got, want := do(recorded{w.record}, 0), do(w.model, 1)
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		w.t.Fatalf("%s at %d (-model +record):\n%s", what, w.clock, d)
	}
}

func (w *twins) person() federation.DID {
	return rapid.SampledFrom([]federation.DID{ada, bob}).Draw(w.t, "did")
}

func (w *twins) device() string {
	return rapid.SampledFrom([]string{"desk", "phone"}).Draw(w.t, "device")
}

// tick lets time pass, or not.
func (w *twins) tick() int {
	w.clock += rapid.IntRange(0, 30).Draw(w.t, "seconds")
	return w.clock
}

func (w *twins) file(f federation.Filing) {
	f.Filed = federationtest.At(w.clock)
	f.View.Moved = f.Filed
	w.both("Append", func(record modelled, _ int) outcome {
		_, err := record.Append(w.ctx, f)
		return outcome{Err: class(err)}
	})
	w.handoff[len(w.handoff)+1] = f
}

// Offer opens a handoff, from either of the two to the other.
func (w *twins) Offer(t *rapid.T) {
	w.t = t
	from := w.person()
	to := map[federation.DID]federation.DID{ada: bob, bob: ada}[from]
	w.clock++
	w.file(federationtest.File(federationtest.Offer(w.clock, from, to), federation.View{}))
}

func (w *twins) Decline(t *rapid.T) {
	w.t = t
	if len(w.handoff) == 0 {
		return // nothing is offered
	}
	f := w.handoff[rapid.IntRange(1, len(w.handoff)).Draw(t, "handoff")]
	w.clock++
	w.file(federationtest.File(federationtest.Step(w.clock, f.Event, federation.Decline, f.View.Offeree), f.View))
}

func (w *twins) Lease(t *rapid.T) {
	w.t = t
	now, length, limit := w.tick(), rapid.IntRange(0, 60).Draw(t, "length"), rapid.IntRange(0, 4).Draw(t, "limit")
	to, device := w.person(), w.device()
	w.both("Lease", func(record modelled, which int) outcome {
		leases, err := record.Lease(w.ctx, to, device, "", federationtest.At(now), federationtest.At(now+length), limit)
		out := outcome{Err: class(err)}
		for _, l := range leases {
			w.holds[which] = append(w.holds[which], l.LeaseToken)
			out.Events, out.Numbers = append(out.Events, l.Entry.Event.ID), append(out.Numbers, l.Entry.Number)
			out.Deliveries = append(out.Deliveries, l.Delivery)
		}
		return out
	})
}

// Settle acknowledges, puts back or extends any lease that ever was.
func (w *twins) Settle(t *rapid.T) {
	w.t = t
	if len(w.holds[0]) == 0 {
		return // nothing was leased
	}
	i, to := rapid.IntRange(0, len(w.holds[0])-1).Draw(t, "hold"), w.person()
	until := federationtest.At(w.tick() + rapid.IntRange(0, 60).Draw(t, "until"))
	verb := rapid.SampledFrom([]string{"Ack", "Nack", "Extend"}).Draw(t, "verb")
	w.both(verb, func(record modelled, which int) outcome {
		hold := w.holds[which][i]
		switch verb {
		case "Ack":
			return outcome{Err: class(record.Ack(w.ctx, to, hold, federationtest.At(w.clock)))}
		case "Nack":
			return outcome{Err: class(record.Nack(w.ctx, to, hold, until))}
		}
		return outcome{Err: class(record.Extend(w.ctx, to, hold, until))}
	})
}

// Replay reads on from any cursor that ever was.
func (w *twins) Replay(t *rapid.T) {
	w.t = t
	to, limit := w.person(), rapid.IntRange(0, 5).Draw(t, "limit")
	i := rapid.IntRange(-1, len(w.cursors[0])-1).Draw(t, "cursor")
	w.both("Replay", func(record modelled, which int) outcome {
		entries, err := record.Replay(w.ctx, to, w.cursor(which, i), limit)
		out := outcome{Err: class(err)}
		for _, entry := range entries {
			w.cursors[which] = append(w.cursors[which], entry.Cursor)
			out.Events, out.Numbers = append(out.Events, entry.Event.ID), append(out.Numbers, entry.Number)
		}
		return out
	})
}

func (w *twins) cursor(which, i int) federation.Cursor {
	if i < 0 {
		return ""
	}
	return w.cursors[which][i]
}

func (w *twins) Advance(t *rapid.T) {
	w.t = t
	of, device, now := w.person(), w.device(), federationtest.At(w.tick())
	i := rapid.IntRange(-1, len(w.cursors[0])-1).Draw(t, "cursor")
	w.both("Advance", func(record modelled, which int) outcome {
		return outcome{Err: class(record.Advance(w.ctx, of, device, w.cursor(which, i), now))}
	})
}

func (w *twins) Forget(t *rapid.T) {
	w.t = t
	of, device := w.person(), w.device()
	w.both("Forget", func(record modelled, _ int) outcome {
		return outcome{Err: class(record.Forget(w.ctx, of, device))}
	})
}

// Read marks a step as read, or gives it up.
func (w *twins) Read(t *rapid.T) {
	w.t = t
	if len(w.handoff) == 0 {
		return // there is nothing to read
	}
	step := []federation.EventID{w.handoff[rapid.IntRange(1, len(w.handoff)).Draw(t, "step")].Event.ID}
	to, now, lapse := w.person(), federationtest.At(w.tick()), rapid.Bool().Draw(t, "lapse")
	w.both("Read", func(record modelled, _ int) outcome {
		if lapse {
			return outcome{Err: class(record.ExpireUnread(w.ctx, to, step, now))}
		}
		return outcome{Err: class(record.Read(w.ctx, to, step, now))}
	})
}

func (w *twins) Delay(t *rapid.T) {
	w.t = t
	now := w.tick()
	before, limit := federationtest.At(now-rapid.IntRange(0, 60).Draw(t, "age")), rapid.IntRange(0, 4).Draw(t, "limit")
	w.both("Delay", func(record modelled, _ int) outcome {
		n, err := record.Delay(w.ctx, before, federationtest.At(now), limit)
		return outcome{N: n, Err: class(err)}
	})
}

// Told compares the deliveries of the steps of a handoff, and the notices of signers.
func (w *twins) Told(t *rapid.T) {
	w.t = t
	if len(w.handoff) == 0 {
		return // nothing became of anything
	}
	id := w.handoff[rapid.IntRange(1, len(w.handoff)).Draw(t, "handoff")].Event.Handoff
	w.both("Deliveries", func(record modelled, _ int) outcome {
		became, err := record.Deliveries(w.ctx, id, nil)
		return outcome{Delivered: became, Err: class(err)}
	})
	w.both("DueNotices", func(record modelled, _ int) outcome {
		notices, err := record.dueNotices(w.ctx, "oftc", federationtest.At(w.clock), 1000)
		out := outcome{Err: class(err)}
		for _, n := range notices {
			out.Events, out.Notices = append(out.Events, n.Event.ID), append(out.Notices, n.Kind)
		}
		return out
	})
}

func (w *twins) Prune(t *rapid.T) {
	w.t = t
	now := w.tick()
	before := federationtest.At(now - rapid.IntRange(0, 60).Draw(t, "age"))
	w.both("Prune", func(record modelled, _ int) outcome {
		var out outcome
		var after federation.Cursor
		for range 1000 {
			n, next, err := record.Prune(w.ctx, before, federationtest.At(now), after, 3)
			if out.N += n; err != nil || next == "" {
				out.Err = class(err)
				break
			}
			after = next
		}
		return out
	})
}

// Reopen ends the process of the record, as far as the record knows.
func (w *twins) Reopen(t *rapid.T) {
	w.t = t
	if err := w.record.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	w.begin()
}

func (w *twins) begin() {
	var err error
	if w.record, err = w.open(); err != nil {
		w.t.Fatalf("Open: %v", err)
	}
}

// Check compares the visible state without changing anything.
func (w *twins) Check(t *rapid.T) {
	w.t = t
	for _, did := range []federation.DID{ada, bob} {
		w.both("Waiting", func(record modelled, _ int) outcome {
			n, size, err := record.Waiting(w.ctx, did)
			return outcome{N: n, Size: size, Err: class(err)}
		})
		w.both("Devices", func(record modelled, which int) outcome {
			devices, err := record.Devices(w.ctx, did)
			out := outcome{Devices: devices, Err: class(err)}
			for i, d := range devices {
				out.Deliveries = append(out.Deliveries, slices.Index(w.cursors[which], d.Cursor))
				out.Devices[i].Cursor = ""
			}
			return out
		})
		w.both("Handoffs", func(record modelled, _ int) outcome {
			views, _, err := record.Handoffs(w.ctx, federation.Filter{DIDs: []federation.DID{did}}, "", 1000)
			out := outcome{Err: class(err)}
			for _, v := range views {
				out.Events = append(out.Events, v.ID)
			}
			return out
		})
	}
	w.both("Undelivered", func(record modelled, _ int) outcome {
		waiting, err := record.Undelivered(w.ctx, federationtest.At(w.clock), 1000)
		out := outcome{Err: class(err)}
		for _, u := range waiting {
			out.Events, out.Numbers = append(out.Events, u.Entry.Event.ID), append(out.Numbers, u.Entry.Number)
		}
		return out
	})
}

// The contract suites check each method; this test checks that no order of calls makes the record
// differ from its model, with restarts in between.
func TestInboxFollowsItsModel(t *testing.T) {
	t.Parallel()
	empty := emptyRecord(t)
	rapid.Check(t, func(r *rapid.T) {
		dir := t.TempDir()
		if err := os.WriteFile(at(dir), empty, 0o600); err != nil {
			r.Fatal(err)
		}
		checkModel(t, r, func() (*registry.Record, error) { return registry.Open(t.Context(), at(dir), prometheus.NewRegistry()) })
	})
}

// checkModel makes anything happen to an empty record and its model.
func checkModel(t *testing.T, r *rapid.T, open func() (*registry.Record, error)) {
	t.Helper()
	w := &twins{ctx: t.Context(), open: open, t: r, model: newInboxModel(), handoff: map[int]federation.Filing{}}
	w.begin()
	defer func() {
		if err := w.record.Close(); err != nil {
			r.Errorf("Close: %v", err)
		}
	}()
	r.Repeat(map[string]func(*rapid.T){
		"": w.Check, "offer": w.Offer, "decline": w.Decline, "lease": w.Lease, "settle": w.Settle, "replay": w.Replay,
		"advance": w.Advance, "forget": w.Forget, "prune": w.Prune, "reopen": w.Reopen, "read": w.Read, "delay": w.Delay, "told": w.Told,
	})
}
