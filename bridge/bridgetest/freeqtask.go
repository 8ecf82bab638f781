package bridgetest

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
)

type rule struct {
	from []string
	to   string
	who  func(t *freeqTask) string
}

func rules(kind string) map[string]rule {
	offerer := func(t *freeqTask) string { return t.offerer }
	offeree := func(t *freeqTask) string { return t.offeree }
	worker := func(t *freeqTask) string { return t.worker }
	if kind == "bounty" {
		return map[string]rule{
			"bid":         {[]string{"open"}, "open", nil},
			"award":       {[]string{"open"}, "assigned", offerer},
			"progress":    {[]string{"assigned"}, "assigned", worker},
			"submit":      {[]string{"assigned"}, "under_review", worker},
			"revise":      {[]string{"under_review"}, "assigned", offerer},
			"accept-work": {[]string{"under_review"}, "accepted", offerer},
			"forfeit":     {[]string{"assigned", "under_review"}, "forfeited", worker},
			"auto-accept": {[]string{"under_review"}, "accepted", nil},
			"cancel":      {[]string{"open", "assigned"}, "cancelled", offerer},
			"expire":      {[]string{"open", "assigned", "under_review"}, "expired", nil},
		}
	}
	return map[string]rule{
		"accept":   {[]string{"offered"}, "assigned", offeree},
		"decline":  {[]string{"offered"}, "declined", offeree},
		"claim":    {[]string{"open"}, "assigned", nil},
		"progress": {[]string{"assigned"}, "assigned", worker},
		"complete": {[]string{"assigned"}, "completed", worker},
		"fail":     {[]string{"assigned"}, "failed", worker},
		"cancel":   {[]string{"offered", "open", "assigned"}, "cancelled", offerer},
		"expire":   {[]string{"offered", "open", "assigned"}, "expired", nil},
	}
}

func moving(verb string) bool {
	return !slices.Contains([]string{"progress", "bid", "expire", "auto-accept"}, verb)
}

func (t *freeqTask) legal(verb, actor string) string {
	r, known := rules(t.kind)[verb]
	if !known || !slices.Contains(r.from, t.state) || r.who != nil && r.who(t) != actor {
		return ""
	}
	return r.to
}

func (f *Freeq) assign(t *freeqTask, verb string, row freeqRow) {
	switch verb {
	case "accept", "claim":
		t.worker = row.actor
	case "award":
		var doc map[string]string
		_ = json.Unmarshal([]byte(row.canonical), &doc) // it was filed
		for _, bid := range f.log {
			if bid.id == doc["act-accepts"] && bid.task == t.id {
				t.worker = bid.actor
			}
		}
	}
}

func (f *Freeq) file(row freeqRow, tags map[string]string, ours, routed bool) {
	verb, task := tags["+freeq.at/act-verb"], f.tasks[row.task]
	known := slices.IndexFunc(f.log, func(each freeqRow) bool { return each.id == row.id })
	switch {
	case known >= 0:
		if routed && f.log[known].state == "confirmed" && task != nil && task.home == f.id {
			f.sayReceipt(task, row.id)
		}
	case verb == "offer":
		row.task, row.state = row.id, "confirmed"
		state := "open"
		if tags["+freeq.at/act-to"] != "" {
			state = "offered"
		}
		f.tasks[row.id] = &freeqTask{
			id: row.id, kind: tags["+freeq.at/act"], venue: row.venue, state: state, home: row.origin,
			offerer: row.actor, offeree: tags["+freeq.at/act-to"],
		}
		f.log = append(f.log, row)
	case task == nil || task.venue != row.venue:
		f.oddOf(row, "%s of %s in %s", verb, row.task, row.venue)
	case verb == "confirm":
		f.confirmed(task, row, tags["+freeq.at/act-subject"])
	case task.home != f.id && moving(verb):
		row.state = "unconfirmed"
		f.log = append(f.log, row)
		early := f.early[row.id]
		delete(f.early, row.id)
		for _, receipt := range early {
			f.confirmed(task, receipt, row.id)
		}
	default:
		f.move(task, row, verb, ours)
	}
}

func (f *Freeq) move(task *freeqTask, row freeqRow, verb string, ours bool) {
	to := task.legal(verb, row.actor)
	if (verb == "expire" || verb == "auto-accept") && !strings.HasPrefix(row.actor, "did:web:") {
		f.odd("%s of %s by %s", verb, task.id, row.actor)
		return
	}
	if to == "" {
		if !ours && (verb == "progress" || verb == "bid") {
			f.oddOf(row, "%s of %s while it is %s", verb, task.id, task.state)
		}
		return
	}
	f.assign(task, verb, row)
	task.state, row.state = to, "confirmed"
	f.log = append(f.log, row)
	if moving(verb) && task.home == f.id {
		f.receipt(task, row.id)
	}
}

func (f *Freeq) confirmed(task *freeqTask, receipt freeqRow, subject string) {
	if !strings.HasPrefix(receipt.actor, "did:web:") || task.home != receipt.origin {
		f.oddOf(receipt, "a receipt by %s", receipt.actor)
		return
	}
	i := slices.IndexFunc(f.log, func(each freeqRow) bool { return each.id == subject })
	if i < 0 { // it waits, and is not stored yet
		if f.dropped == 0 && len(f.peers) == 0 { // else the step comes from another server
			f.odd("a receipt of %s, which is not on file", subject)
		}
		f.early[subject] = append(f.early[subject], receipt)
		return
	}
	var doc map[string]string
	_ = json.Unmarshal([]byte(f.log[i].canonical), &doc)
	if to := task.legal(doc["act-verb"], f.log[i].actor); to != "" {
		f.assign(task, doc["act-verb"], f.log[i])
		task.state, f.log[i].state = to, "confirmed"
	}
	f.log = append(f.log, receipt)
}

// receipt stores the receipt of a step, and sends it twice, like a real server.
func (f *Freeq) receipt(task *freeqTask, subject string) {
	id, err := federation.NewEventID(time.Now(), entropy())
	if err != nil {
		f.odd("%v", err)
		return
	}
	tags := map[string]string{
		"+freeq.at/act": task.kind, "+freeq.at/act-verb": "confirm", "+freeq.at/act-id": task.id, "+freeq.at/act-subject": subject,
		"+freeq.at/from": "did:web:" + f.cfg.Name, "+freeq.at/eventid": id.String(),
	}
	document := seal(f.cfg.Server, tags, task.venue)
	f.log = append(f.log, freeqRow{
		id: id.String(), task: task.id, venue: task.venue, canonical: document, signature: tags["+freeq.at/sig"],
		actor: "did:web:" + f.cfg.Name, origin: f.id, state: "receipt of " + subject, at: time.Now().Unix(),
	})
	f.sayReceipt(task, subject)
	f.sayReceipt(task, subject)
}

func (f *Freeq) sayReceipt(task *freeqTask, subject string) {
	if f.mute["confirm"] {
		return
	}
	for _, row := range f.log {
		if row.state != "receipt of "+subject {
			continue
		}
		tags := tagsOf(row)
		tags["msgid"] = row.id
		receipt := map[string]any{
			"type": "tagmsg", "from": f.cfg.Name, "target": f.target(task.venue), "tags": tags, "account": row.actor,
		}
		f.relay("", receipt)
		f.say(f.event(receipt))
	}
}

// For a pair, it is the first DID.
func (f *Freeq) target(venue string) string {
	if a, _, private := federation.Parties(venue); private {
		return string(a)
	}
	return venue
}

func tagsOf(row freeqRow) map[string]any {
	var doc map[string]string
	_ = json.Unmarshal([]byte(row.canonical), &doc)
	tags := map[string]any{"+freeq.at/sig": row.signature, "+freeq.at/from": doc["from"], "+freeq.at/eventid": doc["id"]}
	for name, value := range doc {
		if name != "from" && name != "id" && name != "target" {
			tags["+freeq.at/"+name] = value
		}
	}
	return tags
}
