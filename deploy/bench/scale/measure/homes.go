package measure

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver of the records

	"github.com/baton-gateway/baton/deploy/agent"
	"github.com/baton-gateway/baton/deploy/bench/scale/model"
)

// limits disables limits as in the lab, because all load comes from one address.
const limits = `
[limits]
did_events_per_minute = 0
address_events_per_minute = 0
inbox_events_per_sender = 0
first_contacts = 0
first_contacts_per_sender = 0
open_handoffs_per_did = 0
logins_per_minute = 0
registrations_per_hour = 0
new_dids_per_address_per_hour = 0
`

type gateway struct {
	child

	dir, url string
}

// The process ends with ctx.
func (g *gateway) start(ctx context.Context, program string) error {
	g.cmd = exec.CommandContext(ctx, program, "serve", "--config", filepath.Join(g.dir, "baton.toml"))
	g.cmd.Stderr = os.Stderr
	return g.cmd.Start()
}

func openGateways(ctx context.Context, dir, hub string, names []string) (all []*gateway, err error) {
	program, err := exec.LookPath("baton")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		address, err := freeAddress(ctx)
		if err != nil {
			return all, err
		}
		g := &gateway{dir: filepath.Join(dir, "home-"+name), url: "http://" + address}
		var text strings.Builder
		fmt.Fprintf(&text, "[home]\nname = %q\n[http]\nlisten = %q\npublic_url = %q\n[admin]\nlisten = \"\"\n[log]\nlevel = \"error\"\n", name, address, g.url)
		fmt.Fprintf(&text, "[relay.hub]\nurls = [%q]\nnkey_file = %q\n", hub, seedFile(dir, name))
		for _, other := range names {
			if other != name {
				fmt.Fprintf(&text, "[[peers]]\nname = %q\ndid = \"did:web:%[1]s\"\n", other)
			}
		}
		err = errors.Join(os.MkdirAll(filepath.Join(g.dir, "data"), 0o700), os.WriteFile(filepath.Join(g.dir, "baton.toml"), []byte(text.String()+limits), 0o600))
		if err != nil {
			return all, err
		}
		if err := g.start(ctx, program); err != nil {
			return all, err
		}
		all = append(all, g)
	}
	return all, nil
}

func stopAll(all []*gateway) {
	for _, g := range all {
		g.stop()
	}
}

func freeAddress(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

func (g *gateway) rows(ctx context.Context) (s model.Stored, err error) {
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: filepath.Join(g.dir, "data", "baton.db")}).EscapedPath()+"?mode=ro")
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tables, err := db.QueryContext(ctx, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
	if err != nil {
		return s, err
	}
	var names []string
	for tables.Next() {
		var name string
		if err := tables.Scan(&name); err != nil {
			return s, err
		}
		names = append(names, name)
	}
	if err := errors.Join(tables.Err(), tables.Close()); err != nil {
		return s, err
	}
	for _, name := range names {
		var count float64
		if err := db.QueryRowContext(ctx, "SELECT count(*) FROM \""+name+"\"").Scan(&count); err != nil {
			return s, err
		}
		s.Rows += count
	}
	return s, db.QueryRowContext(ctx, "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size").Scan(&s.Bytes)
}

// The amounts of work, and the durations of the measurements of idle homes.
const (
	fewHomes, moreHomes = 3, 7
	watchTime           = 62 * time.Second // two rounds of greetings
	works               = 200              // of one kind
	settleTime          = 2 * time.Second  // until all receipts are on disk
	digestsWanted       = 3                // full pages of a comparison
	contextText         = `{"repository":"https://code.example/team/project","branch":"main","files":["relay/hub.go","relay/peer.go"],"instructions":"Review the change of the error handling. Look for lost errors and for retries without a bound, and run the tests twice."}`
	title               = "Review the error handling of the relay"
	chat                = "The review is half done. Two findings so far, both in the retry of the hub; the tests need twenty more minutes."
)

func homeCosts(ctx context.Context, dir string, c *model.Costs) error {
	few, err := workingHomes(ctx, filepath.Join(dir, "few"), c)
	if err != nil {
		return err
	}
	more, err := idleHomes(ctx, filepath.Join(dir, "more"))
	if err != nil {
		return err
	}
	c.HomePeerCPU = (more.cpu.Seconds() - few.cpu.Seconds()) / (moreHomes - fewHomes)
	c.HomePeerBytes = (more.bytes - few.bytes) / (moreHomes - fewHomes)
	return nil
}

func idleHomes(ctx context.Context, dir string) (usage, error) {
	names := homeNames(moreHomes)
	hub, address, err := openHub(ctx, dir, names)
	if err != nil {
		return usage{}, err
	}
	defer hub.stop()
	all, err := openGateways(ctx, dir, address, names)
	defer func() { stopAll(all) }()
	if err != nil {
		return usage{}, err
	}
	if err := sleep(ctx, watchTime/2); err != nil { // until all have met
		return usage{}, err
	}
	return watch(ctx, all)
}

func watch(ctx context.Context, all []*gateway) (mean usage, err error) {
	var before, after time.Duration
	for _, g := range all {
		u, err := g.usage()
		if err != nil {
			return mean, err
		}
		before += u.cpu
	}
	if err := sleep(ctx, watchTime); err != nil {
		return mean, err
	}
	for _, g := range all {
		u, err := g.usage()
		if err != nil {
			return mean, err
		}
		after += u.cpu
		mean.bytes += u.bytes / float64(len(all))
	}
	mean.cpu = time.Duration(float64(after-before) / watchTime.Seconds() / float64(len(all)))
	return mean, nil
}

type trio struct {
	tap   *tap
	homes []*gateway
	c     *model.Costs
	seen  map[way]tally // of all phases
}

func workingHomes(ctx context.Context, dir string, c *model.Costs) (idle usage, err error) {
	names := homeNames(fewHomes)
	hub, address, err := openHub(ctx, dir, names)
	if err != nil {
		return idle, err
	}
	defer hub.stop()
	f := &trio{c: c, seen: map[way]tally{}}
	if f.tap, err = newTap(ctx, strings.TrimPrefix(address, "nats://")); err != nil {
		return idle, err
	}
	defer f.tap.close()
	f.homes, err = openGateways(ctx, dir, f.tap.url(), names)
	defer func() { stopAll(f.homes) }()
	if err != nil {
		return idle, err
	}
	alice, err := f.agent(ctx, 0)
	if err != nil {
		return idle, err
	}
	bob, err := f.agent(ctx, 1)
	if err != nil {
		return idle, err
	}
	if _, err := f.offer(ctx, alice, bob, ""); err != nil { // the homes have met
		return idle, err
	}
	f.note()
	if idle, err = watch(ctx, f.homes); err != nil {
		return idle, err
	}
	f.idle(f.note())
	if err := f.work(ctx, alice, bob); err != nil {
		return idle, err
	}
	if err := f.restart(ctx); err != nil {
		return idle, err
	}
	return idle, f.sizes()
}

func (f *trio) note() map[way]tally {
	counts := f.tap.reset()
	for at, c := range counts {
		s := f.seen[at]
		f.seen[at] = tally{s.messages + c.messages, s.bytes + c.bytes}
	}
	return counts
}

func (f *trio) idle(counts map[way]tally) {
	streamSeconds := fewHomes * (fewHomes - 1) * watchTime.Seconds()
	rate := func(toHub bool, kind string) float64 {
		return float64(counts[way{toHub, kind}].messages) / streamSeconds
	}
	f.c.Pulls, f.c.Heartbeats, f.c.Greetings = rate(true, kindPull), rate(false, kindHeartbeat), rate(true, string(model.Greeting))
}

func (f *trio) sizes() error {
	mean := func(toHub bool, kind string) int { return mean(f.seen, toHub, kind) }
	f.c.Exchanges = make(map[model.Kind]model.Exchange)
	for _, kind := range model.Kinds() {
		e := model.Exchange{
			Question: mean(true, string(kind)), QuestionRead: mean(false, string(kind)),
			Answer: mean(true, string(kind)+answerSuffix), AnswerRead: mean(false, string(kind)+answerSuffix),
		}
		if e.Question == 0 || e.QuestionRead == 0 || e.Answer == 0 || e.AnswerRead == 0 {
			return fmt.Errorf("no message of kind %s was seen: %+v", kind, f.seen)
		}
		f.c.Exchanges[kind] = e
	}
	greeting, digest := f.c.Exchanges[model.Greeting].Question, f.c.Exchanges[model.Digest].Question
	f.c.DigestEntry = float64(digest-greeting) * float64(f.seen[way{true, string(model.Digest)}].messages) / float64(f.tap.compared())
	f.c.Control = model.Control{
		Stored: mean(false, kindStored), Ack: mean(true, kindAck), Pull: mean(true, kindPull),
		Heartbeat: mean(false, kindHeartbeat), Expired: mean(false, kindExpired),
	}
	return nil
}

type worker struct {
	*agent.Agent

	cursor string
}

func (f *trio) agent(ctx context.Context, home int) (*worker, error) {
	a, err := agent.New(f.homes[home].url)
	if err != nil {
		return nil, err
	}
	w := &worker{Agent: a}
	return w, w.Insist(ctx, "inbox", "", nil, nil)
}

func (w *worker) next(ctx context.Context, verb string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		entries, cursor, err := w.Inbox(ctx, w.cursor)
		if err != nil {
			return fmt.Errorf("wait for %q: %w", verb, err)
		}
		w.cursor = cursor
		for _, e := range entries {
			if verb == "" || e.Step.Verb == verb {
				return nil
			}
		}
	}
}

func (f *trio) offer(ctx context.Context, from, to *worker, about string) (made agent.Handoff, err error) {
	body := map[string]string{"title": title, "to": string(to.DID)}
	if about != "" {
		body["context"] = about
	}
	if err := from.Insist(ctx, "handoffs", "", body, &made); err != nil {
		return made, err
	}
	return made, to.next(ctx, "offer")
}

func (w *worker) step(ctx context.Context, verb, id string) error {
	return w.Insist(ctx, "handoffs/"+id+"/"+verb, "", struct{}{}, nil)
}

func (w *worker) ends(ctx context.Context, id, state string) error {
	var h agent.Handoff
	if err := await(ctx, func() bool { return w.Insist(ctx, "handoffs/"+id, "", nil, &h) == nil && h.State == state }); err != nil {
		return fmt.Errorf("handoff is %s, want %s: %w", h.State, state, err)
	}
	return nil
}

func (f *trio) stored(ctx context.Context, times int, do func() error) (here, there model.Stored, err error) {
	var before, after [2]model.Stored
	for i := range before {
		if before[i], err = f.homes[i].rows(ctx); err != nil {
			return here, there, err
		}
	}
	for range times {
		if err := do(); err != nil {
			return here, there, err
		}
	}
	if err := sleep(ctx, settleTime); err != nil {
		return here, there, err
	}
	for i := range after {
		if after[i], err = f.homes[i].rows(ctx); err != nil {
			return here, there, err
		}
		after[i].Rows, after[i].Bytes = (after[i].Rows-before[i].Rows)/float64(times), (after[i].Bytes-before[i].Bytes)/float64(times)
	}
	return after[0], after[1], nil
}

// In work, alice at the first home works with bob at the second one, and with others.
func (f *trio) work(ctx context.Context, alice, bob *worker) (err error) {
	dora, err := f.agent(ctx, 0)
	if err != nil {
		return err
	}
	var local, remote []time.Duration
	complete := func(to *worker, took *[]time.Duration) func() error {
		return func() error {
			begun := time.Now()
			made, err := f.offer(ctx, alice, to, contextText)
			*took = append(*took, time.Since(begun))
			return errors.Join(err, to.step(ctx, "accept", made.ID), to.step(ctx, "complete", made.ID), alice.ends(ctx, made.ID, "completed"))
		}
	}
	if f.c.LocalHandoff, _, err = f.stored(ctx, works, complete(dora, &local)); err != nil {
		return err
	}
	if f.c.OfferedHere, f.c.OfferedThere, err = f.stored(ctx, works, complete(bob, &remote)); err != nil {
		return err
	}
	f.c.LocalP50, f.c.HubP50, f.c.HubP99 = percentile(local, 50), percentile(remote, 50), percentile(remote, 99)
	_, _, err = f.stored(ctx, works/10, func() error {
		made, err := f.offer(ctx, alice, bob, contextText)
		return errors.Join(err, bob.step(ctx, "decline", made.ID), alice.ends(ctx, made.ID, "declined"))
	})
	if err != nil {
		return err
	}
	write := func(to *worker) func() error {
		return func() error {
			if err := alice.Insist(ctx, "messages", "", map[string]string{"to": string(to.DID), "text": chat}, nil); err != nil {
				return err
			}
			return to.next(ctx, "")
		}
	}
	if f.c.LocalText, _, err = f.stored(ctx, works, write(dora)); err != nil {
		return err
	}
	if f.c.TextHere, f.c.TextThere, err = f.stored(ctx, works, write(bob)); err != nil {
		return err
	}
	if err := f.open(ctx, alice, bob); err != nil {
		return err
	}
	return f.contacts(ctx, alice)
}

// The offer and each later step reach all homes.
func (f *trio) open(ctx context.Context, alice, bob *worker) (err error) {
	f.c.OpenHere, f.c.OpenThere, err = f.stored(ctx, works/4, func() error {
		var made agent.Handoff
		if err := alice.Insist(ctx, "handoffs", "", map[string]string{"title": title, "context": contextText}, &made); err != nil {
			return err
		}
		return errors.Join(bob.ends(ctx, made.ID, "open"), bob.step(ctx, "claim", made.ID), bob.step(ctx, "complete", made.ID), alice.ends(ctx, made.ID, "completed"))
	})
	return err
}

func (f *trio) contacts(ctx context.Context, alice *worker) error {
	const strangers = works / 10
	here, _, err := f.stored(ctx, strangers, func() error {
		stranger, err := f.agent(ctx, 1)
		if err != nil {
			return err
		}
		made, err := f.offer(ctx, alice, stranger, contextText)
		return errors.Join(err, stranger.step(ctx, "accept", made.ID), stranger.step(ctx, "complete", made.ID), alice.ends(ctx, made.ID, "completed"))
	})
	f.c.Location = model.Stored{Rows: here.Rows - f.c.OfferedHere.Rows, Bytes: max(0, here.Bytes-f.c.OfferedHere.Bytes)}
	f.note()
	return err
}

func (f *trio) restart(ctx context.Context) error {
	f.homes[1].stop()
	if err := f.homes[1].start(ctx, f.homes[0].cmd.Path); err != nil {
		return err
	}
	digests := func() bool {
		f.note()
		return f.seen[way{false, string(model.Digest) + answerSuffix}].messages >= digestsWanted
	}
	if err := await(ctx, digests); err != nil {
		return fmt.Errorf("comparison after a restart: %w", err)
	}
	return nil
}

// percentile returns seconds.
func percentile(took []time.Duration, percent float64) float64 {
	slices.Sort(took)
	return took[int(math.Floor(float64(len(took)-1)*percent/100))].Seconds()
}
