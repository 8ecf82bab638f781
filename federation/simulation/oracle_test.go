package simulation_test

import (
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// oracle judges a federation from outside: by the answers that agents got, and by what the homes
// show of their records in the end.
type oracle struct {
	world    *world
	signed   map[string]*agent // by the documents that agents signed
	forged   map[string]bool   // documents with another signature, or signed for another purpose
	tainted  map[federation.HandoffID]bool
	owners   map[federation.HandoffID]*site // that acknowledged the offer
	backups  map[*site]time.Time
	restored map[*site][]restore
	liar     *site // nil if all homes are honest
}

func newOracle(w *world) *oracle {
	return &oracle{
		world: w, signed: map[string]*agent{}, forged: map[string]bool{}, tainted: map[federation.HandoffID]bool{}, owners: map[federation.HandoffID]*site{},
		backups: map[*site]time.Time{}, restored: map[*site][]restore{},
	}
}

// restore is the replacement of a record by an older copy.
type restore struct{ copied, restored time.Time }

// shown is what one home shows of a handoff.
type shown struct {
	view federation.View
	log  []federation.Entry
}

func (s shown) documents() (all []string) {
	for _, entry := range s.log {
		all = append(all, entry.Event.Signature.Document)
	}
	return all
}

func (s shown) verbs() string {
	var verbs []string
	for _, entry := range s.log {
		verbs = append(verbs, string(entry.Event.Verb))
	}
	return strings.Join(verbs, " ")
}

// judge checks each rule.
func (o *oracle) judge() {
	w := o.world
	for _, s := range w.sites {
		if s.live() == nil {
			return // end has reported it
		}
	}
	for _, a := range w.agents {
		for _, each := range a.sent {
			if each.event.Verb == federation.Offer && each.acked {
				o.owners[each.event.Handoff] = each.to
			}
		}
	}
	all := map[federation.HandoffID]map[*site]shown{}
	for _, id := range w.offered {
		all[id] = map[*site]shown{}
		for _, s := range w.sites {
			all[id][s] = o.read(s, id)
		}
	}
	for _, id := range w.offered {
		o.judgeHandoff(id, o.owners[id], all[id])
	}
	for _, a := range w.agents {
		for _, each := range a.sent {
			o.judgeStep(each, o.owners[each.event.Handoff], all[each.event.Handoff])
		}
	}
	for _, s := range w.sites {
		o.judgeSite(s)
	}
	for _, a := range w.agents {
		o.judgeInbox(a, all)
	}
}

func (o *oracle) read(s *site, id federation.HandoffID) (found shown) {
	var err error
	if found.view, err = s.live().record.View(o.world.ctx, id); err != nil {
		o.world.fail("read", "%s at %s: %v", short(id), s.id, err)
	}
	for entry, err := range s.live().record.Log(o.world.ctx, id, 0) {
		if err != nil {
			o.world.fail("read", "%s at %s: %v", short(id), s.id, err)
			break
		}
		found.log = append(found.log, entry)
	}
	return found
}

// judgeHandoff compares the homes of one handoff.
func (o *oracle) judgeHandoff(id federation.HandoffID, owner *site, at map[*site]shown) {
	w := o.world
	for _, s := range w.sites {
		found := at[s]
		o.judgeLog(id, s, found)
		if owner == nil && len(found.log) > 0 && len(o.restored) == 0 {
			w.fail("only-acknowledged", "%s has %s, whose offer no home acknowledged", s.id, short(id))
		}
	}
	if owner == nil || o.tainted[id] {
		return
	}
	truth := at[owner]
	for _, s := range w.sites {
		v, late := at[s].view, owner.now().Sub(truth.view.Deadline)
		due := !v.Deadline.IsZero() && v.Answered == 0 && v.Exists() && late > latestEnd
		if whole := s == owner || o.takesPart(s, truth) && !o.excused(id, owner, s, at); due && whole && !v.Over {
			w.fail("expires", "%s is %s at %s, and its deadline was %s ago", short(id), v.State, s.id, late)
		}
	}
	if truth.view.Exists() && (truth.view.Home != owner.id || truth.view.Remote) {
		w.fail("home", "%s says that the home of %s is %s", owner.id, short(id), truth.view.Home)
	}
	for _, s := range w.sites {
		found := at[s]
		if s == owner || o.excused(id, owner, s, at) {
			continue
		}
		whole := o.takesPart(s, truth)
		if len(found.log) > 0 && truth.view.Exists() && !whole && !o.tookPart(s, truth) {
			w.fail("no-strays", "%s has %s, in which it takes no part", s.id, short(id))
		}
		whole = whole && (len(found.log) > 0 || !truth.view.Over) // an offer that is over before its recipient is found is dropped
		switch {
		case slices.Equal(found.documents(), truth.documents()):
			if v := found.view; v.Exists() && (v.State != truth.view.State || v.Assignee != truth.view.Assignee || v.Version != truth.view.Version || v.Over != truth.view.Over) {
				w.fail("one-state", "%s is %s of %s at %s, and %s of %s at %s", short(id), v.State, v.Assignee, s.id, truth.view.State, truth.view.Assignee, owner.id)
			}
		case len(found.log) > len(truth.log) || !slices.Equal(found.documents(), truth.documents()[:len(found.log)]):
			w.fail("one-order", "%s is %q at %s, and %q at its home %s", short(id), found.verbs(), s.id, truth.verbs(), owner.id)
		case whole:
			w.fail("all-arrive", "%s is %q at %s, and %q at its home %s", short(id), found.verbs(), s.id, truth.verbs(), owner.id)
		}
	}
}

// takesPart reports whether a home must have all steps of a handoff: the mailbox of a party is
// there, and did not move, or anyone may claim it.
func (o *oracle) takesPart(s *site, truth shown) bool {
	if truth.view.Exists() && truth.view.Offeree == "" {
		return true
	}
	return slices.ContainsFunc(o.world.agents, func(a *agent) bool {
		return a.at == s && len(a.were) == 1 && slices.Contains(truth.view.Others(""), a.key.DID)
	})
}

// tookPart reports whether the mailbox of a party is or was at a home.
func (o *oracle) tookPart(s *site, truth shown) bool {
	return slices.ContainsFunc(o.world.agents, func(a *agent) bool {
		return a.lived(s) && slices.Contains(truth.view.Others(""), a.key.DID)
	})
}

// latestEnd is the time from the deadline of an unanswered offer to its end: the tolerance for late
// answers, and a few sweeps.
const latestEnd = 2*time.Minute + 3*sweepEvery

// excused reports whether a home may differ from the home of a handoff: that was restored to an older
// copy, went on otherwise, and the other home reports it.
func (o *oracle) excused(id federation.HandoffID, owner, s *site, at map[*site]shown) bool {
	if owner == s || len(o.restored[owner]) == 0 && len(o.restored[s]) == 0 {
		return false
	}
	if at[owner].view.Version == 0 && at[s].view.Over { // the home may have pruned it
		return true
	}
	forked, err := s.live().record.Forked(o.world.ctx, id)
	_, lost := s.live().peer(owner.id).LostSteps(id)
	return err == nil && (forked || lost)
}

// judgeLog checks one log by itself.
func (o *oracle) judgeLog(id federation.HandoffID, s *site, found shown) {
	w := o.world
	if len(found.log) == 0 {
		return
	}
	seen, chain, ends, assigned := map[string]bool{}, [32]byte{}, 0, 0
	for i, entry := range found.log {
		ev := entry.Event
		document := sha256.Sum256([]byte(ev.Signature.Document))
		chain = sha256.Sum256(append(chain[:], document[:]...))
		if kept, err := s.live().record.Chain(w.ctx, id, entry.Version); err != nil || kept != chain || entry.Version != federation.Version(i+1) {
			w.fail("chain", "step %d of %s at %s (%v)", i+1, short(id), s.id, err)
		}
		if seen[ev.Signature.Document] {
			w.fail("once", "%s %s is twice in the log at %s", ev.Verb, short(id), s.id)
		}
		seen[ev.Signature.Document] = true
		by := o.signed[ev.Signature.Document]
		ofHome := by == nil && ev.From == found.view.Home.DID() && ev.Verb == federation.Expire
		switch {
		case o.forged[ev.Signature.Document+ev.Signature.Text]:
			w.fail("nothing-false", "%s has the forged %s of %s", s.id, ev.Verb, short(id))
		case by == nil && !ofHome, by != nil && by.key.DID != ev.From:
			w.fail("nothing-false", "%s has a %s of %s that %s did not sign", s.id, ev.Verb, short(id), ev.From)
		}
		if ev.Verb == federation.Accept || ev.Verb == federation.Claim {
			assigned++
		}
		if slices.Contains([]federation.Verb{federation.Complete, federation.Fail, federation.Decline, federation.Cancel, federation.Expire}, ev.Verb) {
			ends++
		}
	}
	if assigned > 1 || ends > 1 || (ends == 1) != found.view.Over {
		w.fail("one-assignee-one-end", "%s is %q at %s, and over is %t", short(id), found.verbs(), s.id, found.view.Over)
	}
	replayed, err := s.live().home.Kinds.Replay(found.view.Home, s.live().record.Log(w.ctx, id, 0))
	if v := found.view; err != nil || replayed.State != v.State || replayed.Assignee != v.Assignee || replayed.Version != v.Version || replayed.Over != v.Over {
		w.fail("log-is-view", "%s at %s is %s, and %s by its log (%v)", short(id), s.id, v.State, replayed.State, err)
	}
}

// judgeStep checks the fate of one step of an agent.
func (o *oracle) judgeStep(each *sent, owner *site, at map[*site]shown) {
	w := o.world
	var filed int
	if owner != nil {
		for _, document := range at[owner].documents() {
			if document == each.event.Signature.Document {
				filed++
			}
		}
	}
	notices := o.notices(each)
	switch {
	case !each.answered:
		w.fail("answered", "%s of %s by %s got no answer", each.event.Verb, short(each.event.Handoff), each.by.name)
	case each.refused == string(federation.UnknownHandoff) && len(o.restored[each.to]) > 0:
		// The answer to the step was lost, and it was repeated before its restored home had the handoff again.
	case each.refused != "" && filed > 0:
		w.fail("refused-is-final", "%s of %s by %s was refused (%s) and is in the log", each.event.Verb, short(each.event.Handoff), each.by.name, each.refused)
	case !each.acked || o.tainted[each.event.Handoff]:
	case o.mayBeLost(each, owner):
	case !each.awaits && filed != 1:
		w.fail("acknowledged-is-kept", "%s of %s by %s was acknowledged and is in the log %d times", each.event.Verb, short(each.event.Handoff), each.by.name, filed)
	case each.awaits && filed == 1 && notices == 1 && o.excused(each.event.Handoff, owner, each.to, at):
		// The sender knows that its home tells two histories, and the other one has the step.
	case each.awaits && filed+notices != 1:
		w.fail("one-outcome", "%s of %s by %s waited for %s: it is in the log %d times, with %d notices of a refusal", each.event.Verb, short(each.event.Handoff), each.by.name, ownerName(owner), filed, notices)
	}
}

func ownerName(s *site) string {
	if s == nil {
		return "no home"
	}
	return string(s.id)
}

// mayBeLost reports whether the restore of an older copy may have lost a step. The home to which it
// was submitted had it at the answer; its own home may have filed it later.
func (o *oracle) mayBeLost(each *sent, owner *site) bool {
	lost := func(r restore) bool { return each.at.After(r.copied) && each.at.Before(r.restored) }
	filed := func(r restore) bool { return each.at.Before(r.restored) }
	return slices.ContainsFunc(o.restored[each.to], lost) || owner != nil && slices.ContainsFunc(o.restored[owner], filed)
}

// lacksStep reports whether a restored home lacks a step that was on its way from it to the home of its
// handoff at the restore.
func (o *oracle) lacksStep() bool {
	has := func(s *site, each *sent) bool {
		return slices.Contains(o.read(s, each.event.Handoff).documents(), each.event.Signature.Document)
	}
	for _, a := range o.world.agents {
		for _, each := range a.sent {
			onItsWay := func(r restore) bool {
				return each.at.Before(r.restored) && r.restored.Sub(each.at) < longestDelay
			}
			if !each.awaits || !slices.ContainsFunc(o.restored[each.to], onItsWay) || has(each.to, each) {
				continue
			}
			if slices.ContainsFunc(o.world.sites, func(s *site) bool { return has(s, each) }) {
				return true
			}
		}
	}
	return false
}

// notices returns how many notices the sender of a step got that it was refused.
func (o *oracle) notices(each *sent) (n int) {
	all, err := each.to.live().record.NoticesTo(o.world.ctx, federation.InboxLink, each.by.key.DID, "", 1000)
	if err != nil {
		o.world.fail("read", "notices of %s: %v", each.by.name, err)
	}
	for _, notice := range all {
		if notice.Kind == federation.NoticeRefused && notice.Event.ID == each.event.ID {
			n++
		}
	}
	return n
}

// judgeInbox checks that the inboxes of an agent have each step of others in its handoffs once.
func (o *oracle) judgeInbox(a *agent, all map[federation.HandoffID]map[*site]shown) {
	w := o.world
	arrived := map[federation.EventID]int{}
	for _, s := range a.were {
		entries, err := s.live().record.Replay(w.ctx, a.key.DID, "", 10_000)
		if err != nil {
			w.fail("read", "inbox of %s at %s: %v", a.name, s.id, err)
		}
		here := map[federation.EventID]int{}
		for _, entry := range entries {
			here[entry.Event.ID]++
		}
		if s == a.at {
			arrived = here
		}
		for id, n := range here {
			if n > 1 {
				w.fail("inbox-once", "%s has %s %d times at %s", a.name, short(id), n, s.id)
			}
		}
	}
	for _, id := range w.offered {
		o.judgeTold(a, id, all[id], arrived)
	}
}

// judgeTold checks that the inbox of an agent has the steps of others in one handoff. The entries of
// a mailbox that moved came along, since the agents of the simulation mark none as read.
func (o *oracle) judgeTold(a *agent, id federation.HandoffID, at map[*site]shown, arrived map[federation.EventID]int) {
	owner := o.owners[id]
	if owner == nil || o.tainted[id] || o.excused(id, owner, a.at, at) {
		return
	}
	truth := at[owner]
	if !slices.Contains(truth.view.Others(""), a.key.DID) || len(at[a.at].log) == 0 && truth.view.Over {
		return
	}
	claimed := a.key.DID == truth.view.Assignee && a.key.DID != truth.view.Offeree && a.key.DID != truth.view.Offerer
	for _, entry := range truth.log {
		if entry.Event.From == a.key.DID || claimed && entry.Version < truth.view.Answered { // it was no party yet
			continue
		}
		if arrived[entry.Event.ID] != 1 {
			o.world.fail("told", "%s has the %s of %s %d times in its inbox at %s", a.name, entry.Event.Verb, short(id), arrived[entry.Event.ID], a.at.id)
		}
	}
}

// judgeSite checks a home: it gave up no delivery, and accuses no honest home.
func (o *oracle) judgeSite(s *site) {
	w := o.world
	dead, err := s.live().record.DeadLetters(w.ctx, federation.DeadFilter{}, 0, 10)
	if err != nil || len(dead) > 0 {
		w.fail("no-dead-letters", "%s: %v %v", s.id, dead, err)
	}
	for _, other := range w.sites {
		if other == o.liar {
			continue
		}
		offences, err := s.live().record.Misbehaviors(w.ctx, other.id)
		if err != nil || len(offences) > 0 {
			w.fail("no-false-accusation", "%s accuses %s: %+v %v", s.id, other.id, offences, err)
		}
		forks, err := s.live().record.Forks(w.ctx, other.id, 10)
		if err != nil || len(forks) > 0 && len(o.restored[other]) == 0 {
			w.fail("no-false-accusation", "%s has a proof against %s: %+v (%v)", s.id, other.id, forks, err)
		}
	}
}
