package a2aclient

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/journals"
)

type noteKind string

const (
	noteSending noteKind = "sending" // a message is about to be sent: the agent may have it
	noteUnsent  noteKind = "unsent"  // the agent does not have the message
	noteUnknown noteKind = "unknown" // abandoned: the agent may have it, but cannot report it
	noteTask    noteKind = "task"    // the agent made this task
	noteMessage noteKind = "message" // the agent answered without a task
	noteStep    noteKind = "step"    // a step is about to be filed
	noteReply   noteKind = "reply"   // an answer is about to be sent
	noteReplied noteKind = "replied" // the agent has that answer
)

type note struct {
	Kind    noteKind        `json:"kind"`
	At      time.Time       `json:"at"`
	Task    wire.TaskID     `json:"task,omitempty"`
	Context string          `json:"context,omitempty"` // contextId
	Message json.RawMessage `json:"message,omitempty"`
	Key     string          `json:"key,omitempty"` // of a step or a question
	Event   string          `json:"event,omitempty"`
	Open    bool            `json:"open,omitempty"`
}

type filed struct {
	id federation.EventID
	at time.Time
}

// task is one handoff at the agent. Its mu is held during each action on it.
type task struct {
	handoff federation.HandoffID
	poke    chan struct{} // holds a token if a poll is requested

	mu       sync.Mutex
	loaded   bool
	length   uint64    // of the journal
	sending  time.Time // of a message without a response; zero for none
	unknown  bool
	open     bool
	id       wire.TaskID // "" before the agent made it
	context  string
	answer   *wire.Message // without a task; nil for none
	steps    map[string]filed
	reports  int
	reply    string          // ID of an unconfirmed answer; "" for none
	done     map[string]bool // steps filed by this process, by key
	read     bool            // by this session
	asked    bool            // the agent waits for input
	ended    bool            // the task is over, and its last step was filed
	lost     time.Time       // zero for never
	reported time.Time
	followed bool
}

func newTask(id federation.HandoffID) *task {
	return &task{handoff: id, poke: make(chan struct{}, 1), steps: map[string]filed{}, done: map[string]bool{}}
}

// look requests a poll. It does not block.
func (t *task) look() {
	select {
	case t.poke <- struct{}{}:
	default:
	}
}

// inDoubt returns false for an abandoned message, which is resent.
func (t *task) inDoubt() bool { return !t.sending.IsZero() && !t.unknown }

func (l *Link) taskPrefix() string { return network + "/" + l.cfg.Name + "/" }

func (l *Link) journalOf(id federation.HandoffID) string { return l.taskPrefix() + id.String() }

// taskOf returns a task that may have no journal yet.
func (l *Link) taskOf(id federation.HandoffID) *task {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tasks[id]
	if t == nil {
		t = newTask(id)
		l.tasks[id] = t
		l.openTasks()
	}
	return t
}

// openTasks requires l.mu.
func (l *Link) openTasks() {
	l.ports.Metrics.OpenTasks.WithLabelValues(l.cfg.Name).Set(float64(len(l.tasks)))
}

const (
	taskMade      = "made"
	taskCanceled  = "canceled"  // by the gateway
	taskUnclaimed = "unclaimed" // open offer not accepted by the agent
	taskUnknown   = "unknown"   // the agent may have the message, but cannot report it
)

func (l *Link) count(outcome string) {
	l.ports.Metrics.Tasks.WithLabelValues(l.cfg.Name, outcome).Inc()
}

// reserve reports whether an open offer is at the agent, or may be sent to it now.
func (l *Link) reserve(id federation.HandoffID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open.IsZero() {
		l.open = id
	}
	return l.open == id
}

func (l *Link) forget(t *task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tasks[t.handoff] == t {
		delete(l.tasks, t.handoff)
		delete(l.blocked, t.handoff)
		l.openTasks()
	}
	if l.open == t.handoff {
		l.open = federation.HandoffID{}
	}
}

// reset drops all tasks, because another replica may have written their journals.
func (l *Link) reset() (begun <-chan *task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.tasks)
	clear(l.blocked)
	l.openTasks()
	l.open = federation.HandoffID{}
	l.begun = make(chan *task, maxTasks)
	return l.begun
}

func (l *Link) load(ctx context.Context, t *task) (err error) {
	if t.loaded {
		return nil
	}
	t.length, err = readJournal(ctx, l.deps.Journals, l.journalOf(t.handoff), t.length, func(text []byte) error {
		var n note
		if err := federation.DecodeJSON(text, &n); err != nil {
			return err
		}
		return t.apply(n)
	})
	if err != nil {
		return fmt.Errorf("read task of %s: %w", t.handoff, err)
	}
	t.loaded = true
	return nil
}

// readJournal skips the first after entries, and returns the number of entries read.
func readJournal(ctx context.Context, record *journals.Journals, name string, after uint64, take func(entry []byte) error) (taken uint64, err error) {
	for taken = after; ; {
		page, err := record.Journal(ctx, name, taken, federation.MaxJournalPage)
		if err != nil {
			return taken, err
		}
		for _, entry := range page {
			if err := take(entry); err != nil {
				return taken, err
			}
			taken++
		}
		if len(page) < federation.MaxJournalPage {
			return taken, nil
		}
	}
}

func (t *task) apply(n note) error {
	switch n.Kind {
	case noteSending:
		t.sending, t.unknown, t.open = n.At, false, n.Open
	case noteUnsent:
		t.sending = time.Time{}
	case noteUnknown:
		t.unknown = true
	case noteTask:
		t.sending, t.id, t.context = time.Time{}, n.Task, n.Context
	case noteMessage:
		var m wire.Message
		if err := federation.DecodeJSON(n.Message, &m); err != nil {
			return err
		}
		t.sending, t.answer = time.Time{}, &m
	case noteStep:
		id, err := federation.ParseEventID(n.Event)
		if err != nil {
			return err
		}
		t.steps[n.Key] = filed{id, n.At}
		if strings.HasPrefix(n.Key, progressKey) {
			t.reports++
		}
	case noteReply:
		t.reply = n.Event
	case noteReplied:
		t.reply = ""
	}
	return nil
}

// write appends a note to the journal before it applies the note.
func (l *Link) write(ctx context.Context, t *task, n note) error {
	n.At = time.Now().UTC().Truncate(time.Millisecond)
	text, err := encoded(n)
	if err != nil {
		return err
	}
	err = l.deps.Journals.WriteJournals(ctx, []federation.JournalWrite{{Name: l.journalOf(t.handoff), Length: t.length, Entries: [][]byte{text}}})
	if errors.Is(err, federation.ErrStale) {
		t.loaded, t.length = false, 0 // another replica has written: reread everything
	}
	if err != nil {
		return fmt.Errorf("note task of %s: %w", t.handoff, err)
	}
	t.length++
	if n.Kind == noteTask || n.Kind == noteMessage {
		l.count(taskMade)
	}
	if n.Kind == noteUnknown {
		l.count(taskUnknown)
	}
	return t.apply(n)
}

// remove ends a task whose handoff is over or that the agent never had.
func (l *Link) remove(ctx context.Context, t *task) error {
	if err := l.deps.Journals.RemoveJournals(ctx, []string{l.journalOf(t.handoff)}); err != nil {
		return fmt.Errorf("remove task of %s: %w", t.handoff, err)
	}
	l.forget(t)
	return nil
}

// stepOf stores the ID before the step is filed, so that a refiled step has the same ID.
func (l *Link) stepOf(ctx context.Context, t *task, key string) (filed, error) {
	if known, ok := t.steps[key]; ok {
		return known, nil
	}
	return l.mint(ctx, t, key)
}

func (l *Link) mint(ctx context.Context, t *task, key string) (filed, error) {
	id, err := federation.NewEventID(time.Now(), rand.Reader)
	if err != nil {
		return filed{}, err
	}
	if err := l.write(ctx, t, note{Kind: noteStep, Key: key, Event: id.String()}); err != nil {
		return filed{}, err
	}
	return t.steps[key], nil
}
