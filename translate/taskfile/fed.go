package taskfile

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

// Fed is a gateway's note in the context of a record: its data without a member of the protocol.
type Fed struct {
	Version  int      `json:"v"`
	ID       string   `json:"id"`
	Gateway  string   `json:"gateway,omitempty"` // home of the gateway that claimed the record: no other gateway may claim it
	Home     string   `json:"home,omitempty"`
	State    string   `json:"state,omitempty"` // of the handoff, such as cancelled
	Rev      uint64   `json:"rev,omitempty"`   // steps so far
	From     string   `json:"from,omitempty"`  // DIDs
	To       string   `json:"to,omitempty"`
	Assignee string   `json:"assignee,omitempty"`
	Caps     []string `json:"caps,omitempty"`
	Deadline int64    `json:"deadline,omitempty"` // unix seconds
	Priority string   `json:"priority,omitempty"`
	Replaces string   `json:"replaces,omitempty"`
	Context  string   `json:"context,omitempty"` // a reference, or JSON other than an object
	Hash     string   `json:"context_h,omitempty"`
	Evidence string   `json:"evidence,omitempty"` // location of the original of the offer
	Verb     string   `json:"verb,omitempty"`
	Note     string   `json:"note,omitempty"`
	Result   any      `json:"result,omitempty"` // of the last step: its context
}

// StatusOf returns the status of a record whose handoff is in the given state. Was is the previous
// status, because the protocol has one final status for an offer, and two for work.
func StatusOf(state federation.State, was Status) Status {
	switch state {
	case federation.Offered, federation.Open:
		return Offered
	case federation.Assigned:
		return Accepted
	case federation.Completed:
		return Completed
	case federation.Failed:
		return Failed
	case federation.Declined:
		return Rejected
	case federation.Cancelled, federation.Expired:
		if was == Accepted || was == Failed {
			return Failed
		}
		return Rejected
	case federation.None:
	}
	return was
}

// Verbs returns the steps from the state of a handoff to the status of its record, in order. It
// returns false if there are none. A fast agent may have written only a later status.
func Verbs(state federation.State, status Status) ([]federation.Verb, bool) {
	take := federation.Accept
	if state == federation.Open {
		take = federation.Claim
	}
	switch {
	case StatusOf(state, status) == status:
		return nil, true
	case state == federation.Offered || state == federation.Open:
		return fromOffer(state, take, status)
	case state == federation.Assigned && status == Completed:
		return []federation.Verb{federation.Complete}, true
	case state == federation.Assigned && status == Failed:
		return []federation.Verb{federation.Fail}, true
	}
	return nil, false
}

func fromOffer(state federation.State, take federation.Verb, status Status) ([]federation.Verb, bool) {
	switch status {
	case Accepted:
		return []federation.Verb{take}, true
	case Completed:
		return []federation.Verb{take, federation.Complete}, true
	case Failed:
		return []federation.Verb{take, federation.Fail}, true
	case Rejected:
		return []federation.Verb{federation.Decline}, state == federation.Offered
	case Offered:
	}
	return nil, false
}

// TaskID returns the task_id of a handoff in a directory: a deterministic UUID of version 4 that
// looks random. The ID of the handoff is unsuitable, because people type its first characters, and
// handoffs of the same second share them.
func TaskID(directory string, id federation.HandoffID) string {
	sum := sha256.Sum256([]byte("baton task " + directory + "\x00" + id.String()))
	u := sum[:16]
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// FedOf returns a gateway's note about a handoff after a step.
func FedOf(gateway federation.HomeID, s translate.Step) Fed {
	v := s.View
	fed := Fed{
		Version: 1, ID: v.ID.String(), Gateway: string(gateway), Home: string(v.Home), State: string(v.State), Rev: uint64(v.Version), From: string(v.Offerer), To: string(v.Offeree),
		Assignee: string(v.Assignee), Caps: v.Caps, Priority: v.Priority, Replaces: v.Replaces.String(), Verb: string(s.Event.Verb), Note: s.Event.Note,
	}
	if !v.Deadline.IsZero() {
		fed.Deadline = v.Deadline.Unix()
	}
	if s.Event.Verb == federation.Offer {
		if s.Event.Evidence != nil {
			fed.Evidence = s.Event.Evidence.URL
		}
		return fed
	}
	if raw := json.RawMessage(s.Event.Context); json.Valid(raw) {
		fed.Result = raw
	} else if s.Event.Context != "" {
		fed.Result = s.Event.Context
	}
	return fed
}

// Encode returns the record of an offer that a gateway writes into a directory.
func Encode(gateway federation.HomeID, directory, from, to string, s translate.Step) (Record, error) {
	context, fed := s.Event.Context, FedOf(gateway, s)
	members, err := split([]byte(context))
	taken := slices.ContainsFunc(members, func(m member) bool { return m.name == FedMember })
	if context != "" && (err != nil || taken) { // not an object, or an object with one of our members
		fed.Context, fed.Hash, context = context, s.Event.ContextHash, ""
	}
	r, err := New(TaskID(directory, s.Event.Handoff), from, to, s.Event.Title, context, s.Filed)
	if err != nil {
		return Record{}, err
	}
	r, err = r.WithFed(fed)
	if err == nil && len(r.Bytes()) > MaxBytes {
		err = federation.Refuse(s.Event, federation.InvalidContext, fmt.Sprintf("a record has at most %d bytes", MaxBytes))
	}
	return r, err
}
