package federationtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"baton/federation"
	"baton/federation/agents"
)

// Memory is a [Record] that forgets everything when it is dropped. It
// is plain rather than fast: lists that are searched from the front.
type Memory struct {
	mu         sync.Mutex
	closed     bool
	entries    []federation.Entry // in the order of filing, all handoffs, receipts too
	views      map[federation.HandoffID]federation.View
	evidence   map[[32]byte]memoryEvidence
	tombstones []memoryTombstone
	inboxes    map[federation.DID][]inboxRow
	arrived    map[federation.DID]uint64 // how many entries an inbox ever had
	reads      map[federation.DID]bool   // whether the DID was seen reading its inbox
	devices    map[federation.DID]map[string]memoryDevice
	outboxes   []outboxRow
	settled    []settledRow
	notices    []memoryNotice
	dead       []*memoryDead
	lastDead   int64
	changes    []federation.Change
	modes      []federation.PeerMode      // in order
	nearby     []federation.KnownHome     // in order
	holds      []federation.Withheld      // in order
	names      []federation.BoundName     // in order
	tokens     []federation.OperatorToken // in order
	blocks     []federation.Block         // in order
	answers    map[answerKey]federation.Answer
	declared   map[federation.DID][]string
	ownKeys    []federation.KeyMark // in order
	webhooks   []*memoryWebhook     // by id
	lastPush   int64
	lastRow    int64
	bindings   map[federation.DID]federation.Binding
	owners     map[string]federation.DID // by key id
	windows    map[federation.DID]federation.KeyHistory
	paused     map[string]federation.PeerOutbox // by name
	agents     []agents.Agent                   // in the order of registration
	messages   []*memoryMessage                 // in the order of filing
	numbered   int64                            // messages
	consents   map[edge]agents.Consent
	sessions   map[string]federation.Session
	logins     map[federation.DID]bool
	sources    map[edge]string       // where the sender of an edge asked from
	awaiting   []federation.Pending  // in the order of waiting
	deferred   []federation.Deferred // in the order of arrival
	shown      map[string]int        // the position up to which a handle was handed its messages
	homes      memoryHomes
	asked      map[edge]time.Time
	answered   map[edge]bool // whether the block of an edge answered a request
	unseen     map[federation.HandoffID]bool

	lastDeferred int64
	lastNotice   int
	blobs        map[federation.Capability]*memoryBlob

	newcomers map[federation.DID]time.Time // when the record met them
	sizes     []federation.SizeSample      // in order

	relays    []*memoryPeerDelivery
	lastRelay int64
	relayIDs  map[string]edge // the sender and the id of a message, by the id of an attempt
}

type inboxRow struct {
	entry    federation.Entry // with its number
	read     bool             // it waits no more
	outcome  federation.DeliveryState
	ended    time.Time
	looked   bool   // whether it takes long
	slow     bool   // its signer was told that
	device   string // that has it leased, or had
	session  string // session of the lease
	delivery int
	until    time.Time
}

type outboxRow struct {
	row     int64
	link    string
	entry   federation.Entry
	attempt int
	rank    federation.Rank
	queued  time.Time
	next    time.Time // zero for at once
	reason  string
	delayed bool
	tries   []federation.Try
}

var _ Record = (*Memory)(nil)

// NewMemory returns an empty record.
func NewMemory() *Memory {
	return &Memory{
		views:    map[federation.HandoffID]federation.View{},
		evidence: map[[32]byte]memoryEvidence{},
		blobs:    map[federation.Capability]*memoryBlob{},
		inboxes:  map[federation.DID][]inboxRow{}, arrived: map[federation.DID]uint64{}, reads: map[federation.DID]bool{},
		devices:   map[federation.DID]map[string]memoryDevice{},
		bindings:  map[federation.DID]federation.Binding{},
		owners:    map[string]federation.DID{},
		windows:   map[federation.DID]federation.KeyHistory{},
		paused:    map[string]federation.PeerOutbox{},
		consents:  map[edge]agents.Consent{},
		newcomers: map[federation.DID]time.Time{},
		logins:    map[federation.DID]bool{},
		answers:   map[answerKey]federation.Answer{}, declared: map[federation.DID][]string{},
		sessions: map[string]federation.Session{}, shown: map[string]int{}, sources: map[edge]string{},
		asked: map[edge]time.Time{}, answered: map[edge]bool{}, unseen: map[federation.HandoffID]bool{}, relayIDs: map[string]edge{},
	}
}

// begin locks the record for one call, which defers the unlock, also where that is over
// before it begins.
func (m *Memory) begin(ctx context.Context) (unlock func(), err error) {
	m.mu.Lock()
	if err := ctx.Err(); err != nil {
		return m.mu.Unlock, err
	}
	if m.closed {
		return m.mu.Unlock, &federation.UnavailableError{What: "record", Err: errors.New("closed")}
	}
	return m.mu.Unlock, nil
}

// Ready implements [Record].
func (m *Memory) Ready(ctx context.Context) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	return err
}

// Close implements [Record].
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// Append implements [Store].
func (m *Memory) Append(ctx context.Context, f federation.Filing) (federation.Entry, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.Entry{}, err
	}
	ev := f.Event
	if ev.ID.IsZero() || f.View.ID != ev.Handoff || f.View.Version != f.After+1 {
		return federation.Entry{}, fmt.Errorf("append %s: the filing contradicts itself", ev.ID)
	}
	first, err := m.known(ev.From, ev.ID, ev.Digest())
	if !errors.Is(err, federation.ErrNotFound) {
		return first, err
	}
	if err := m.opensAgain(ev); err != nil {
		return federation.Entry{}, err
	}
	before := m.views[ev.Handoff]
	switch {
	case before.Exists() && ev.ID == ev.Handoff:
		return federation.Entry{}, federation.Refuse(ev, federation.EventIDInUse, "")
	case before.Version != f.After:
		return federation.Entry{}, federation.ErrStale
	}
	for _, effect := range f.Effects {
		p, ok := effect.(agents.Posting)
		if !ok {
			return federation.Entry{}, fmt.Errorf("no table takes a %T", effect)
		}
		if _, err := m.post(p); err != nil {
			return federation.Entry{}, err
		}
	}
	return m.file(f), nil
}

func (m *Memory) file(f federation.Filing) federation.Entry {
	entry := federation.Entry{Event: f.Event, Version: f.View.Version, State: f.View.State, Filed: f.Filed}
	if f.Event.Evidence != nil {
		kept := *f.Event.Evidence
		if kept.Bytes != nil {
			m.keep(f.View.ID, kept)
		}
		kept.Bytes = nil
		entry.Event.Evidence = &kept
	}
	m.entries = append(m.entries, entry)
	m.views[f.View.ID] = f.View
	m.homes.rule(f)
	if f.Ruling != nil {
		m.release(f.Event.Handoff, f.Event.From, f.Event.ID)
	}
	m.claimBlob(f.View.ID, federation.CapabilityIn(f.Event.Context))
	for _, did := range f.Inboxes {
		m.arrived[did]++
		arrival := entry
		arrival.Number = m.arrived[did]
		m.inboxes[did] = append(m.inboxes[did], inboxRow{entry: arrival})
		m.pushFiled(did, arrival)
	}
	m.pushFollowed(entry)
	m.owe(f, entry)
	if f.Receipt != nil {
		receipt := federation.Entry{Event: *f.Receipt, State: f.View.State, Filed: f.Filed}
		m.entries = append(m.entries, receipt)
		m.owe(f, receipt)
	}
	m.meet(f.Newcomer, f.Filed)
	for _, kept := range f.Kept {
		m.owners[kept.ID] = kept.Owner
	}
	m.bind(f.Event)
	return entry
}

func (m *Memory) owe(f federation.Filing, entry federation.Entry) {
	for _, link := range f.Links {
		m.lastRow++
		row := outboxRow{row: m.lastRow, link: link, entry: entry, rank: federation.RankOf(entry.Event, f.View), queued: entry.Filed}
		if slices.Contains(f.Once, link) {
			row.attempt = 1
		}
		m.outboxes = append(m.outboxes, row)
	}
}

// bind keeps what a filed step told about its signer.
func (m *Memory) bind(ev federation.Event) {
	m.ownKey(ev.Signature.Key, ev.From)
	at := ev.Arrival
	if at.Name == "" {
		return
	}
	b := federation.Binding{
		DID: ev.From, Network: at.Network, Link: at.Link, Name: at.Name, First: at.Name,
		Key: ev.Signature.Key, Seen: at.Received,
	}
	if ev.Provenance == federation.Vouched && ev.For != "" { // the name belongs to the DID that the step stands for, and the key does not
		b.DID, b.Key = ev.For, nil
	}
	if old, ok := m.bindings[b.DID]; ok {
		b.First = old.First
		if len(b.Key) == 0 {
			b.Key = old.Key
		}
	}
	m.bindings[b.DID] = b
}

// ownKey notes the owner of a key. The first owner keeps it.
func (m *Memory) ownKey(key []byte, owner federation.DID) {
	if len(key) == 0 {
		return
	}
	id := federation.KeyID(key)
	if _, ok := m.owners[id]; !ok {
		m.owners[id] = owner
	}
}

// Known implements [Store].
func (m *Memory) Known(ctx context.Context, from federation.DID, id federation.EventID, digest [32]byte) (federation.Entry, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.Entry{}, err
	}
	return m.known(from, id, digest)
}

func (m *Memory) known(from federation.DID, id federation.EventID, digest [32]byte) (federation.Entry, error) {
	for _, entry := range m.entries {
		if entry.Event.From == from && entry.Event.ID == id && entry.Event.Digest() != digest {
			return federation.Entry{}, &federation.RefusalError{Code: federation.EventIDInUse, Event: id}
		}
	}
	for _, entry := range m.entries {
		if entry.Event.From == from && entry.Event.Digest() == digest {
			return entry, nil
		}
	}
	return federation.Entry{}, m.hasTombstone(from, id, digest)
}

// View implements [Store].
func (m *Memory) View(ctx context.Context, id federation.HandoffID) (federation.View, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.View{}, err
	}
	return m.views[id], nil
}

// Log implements [Store].
func (m *Memory) Log(ctx context.Context, id federation.HandoffID, after federation.Version) iter.Seq2[federation.Entry, error] {
	return func(yield func(federation.Entry, error) bool) {
		steps, err := m.steps(ctx, id)
		if err != nil {
			yield(federation.Entry{}, err)
			return
		}
		for _, entry := range steps {
			if entry.Version > after && !yield(entry, nil) {
				return
			}
		}
	}
}

func (m *Memory) steps(ctx context.Context, id federation.HandoffID) ([]federation.Entry, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var steps []federation.Entry
	for _, entry := range m.entries {
		if entry.Event.Handoff == id && entry.Version > 0 {
			steps = append(steps, entry)
		}
	}
	return steps, nil
}

// Receipts implements [Store].
func (m *Memory) Receipts(ctx context.Context, id federation.HandoffID) ([]federation.Event, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var receipts []federation.Event
	for _, entry := range m.entries {
		if entry.Event.Handoff == id && entry.Version == 0 {
			receipts = append(receipts, entry.Event)
		}
	}
	return receipts, nil
}

// Reference implements [Store].
func (m *Memory) Reference(ctx context.Context, ref string) (federation.HandoffID, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.HandoffID{}, err
	}
	byEvent := func(e federation.Entry) bool { return e.Event.ID.String() == ref }
	byMessage := func(e federation.Entry) bool { return e.Event.Arrival.MessageID == ref && ref != "" }
	for _, matches := range []func(federation.Entry) bool{byEvent, byMessage} {
		if i := slices.IndexFunc(m.entries, matches); i >= 0 {
			return m.entries[i].Event.Handoff, nil
		}
	}
	return federation.HandoffID{}, federation.ErrNotFound
}

// Evidence implements [Store].
func (m *Memory) Evidence(ctx context.Context, digest [32]byte) ([]byte, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	original, ok := m.evidence[digest]
	if !ok {
		return nil, federation.ErrNotFound
	}
	return original.bytes, nil
}

// EvidenceOf implements [Store].
func (m *Memory) EvidenceOf(ctx context.Context, digest [32]byte) (federation.View, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.View{}, err
	}
	original, ok := m.evidence[digest]
	if !ok {
		return federation.View{}, federation.ErrNotFound
	}
	return m.views[original.handoff], nil
}

// Keep implements [Store].
func (m *Memory) Keep(ctx context.Context, id federation.HandoffID, evidence federation.Evidence) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	m.keep(id, evidence)
	return nil
}

// keep files evidence with the first handoff that names it.
func (m *Memory) keep(id federation.HandoffID, evidence federation.Evidence) {
	if _, ok := m.evidence[evidence.Digest]; !ok {
		m.evidence[evidence.Digest] = memoryEvidence{id, evidence.Bytes}
	}
}

// Step implements [Store].
func (m *Memory) Step(ctx context.Context, handoff federation.HandoffID, id federation.EventID) (federation.Entry, error) {
	steps, err := m.steps(ctx, handoff)
	if err != nil {
		return federation.Entry{}, err
	}
	i := slices.IndexFunc(steps, func(e federation.Entry) bool { return e.Event.ID == id })
	if i < 0 {
		return federation.Entry{}, federation.ErrNotFound
	}
	return steps[i], nil
}

// Due implements [Store].
func (m *Memory) Due(ctx context.Context, clock federation.Clock, since time.Time, limit int) ([]federation.View, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var due []federation.View
	for _, v := range m.views {
		if clock != "" && v.Clock == clock && !v.Since.After(since) {
			due = append(due, v)
		}
	}
	slices.SortFunc(due, func(a, b federation.View) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.ID.String(), b.ID.String()))
	})
	return due[:min(max(limit, 0), len(due))], nil
}

// PruneConversations deletes nothing: the fake keeps no messages.
func (*Memory) PruneConversations(context.Context, time.Time, int) (int, error) { return 0, nil }

// PruneChat deletes nothing: the fake keeps no messages.
func (*Memory) PruneChat(context.Context, time.Time, int) (int, error) { return 0, nil }
