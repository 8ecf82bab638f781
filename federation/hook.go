package federation

import (
	"context"
	"errors"
	"time"
)

// ErrTooManyHooks is returned by [Hooks.AddHook] for one more than a DID may have.
var ErrTooManyHooks = errors.New("federation: too many hooks")

// HookID names a hook. It is a ULID, as the id of an event is.
type HookID = EventID

// HookLink is how deliveries to hooks are called where those to links have the name of
// the link. No link has it.
const HookLink = "webhook"

// HookName returns how a hook is called among links, in dead letters and in the log.
func HookName(id HookID) string { return HookLink + "/" + id.String() }

// Hook is an address of somebody's own to which what reaches an inbox is posted.
type Hook struct {
	ID    HookID    `json:"id"`
	DID   DID       `json:"did"`             // whose it is, and whose inbox
	Agent string    `json:"agent,omitempty"` // name on a link of the participant that gets its messages there; "" for one that gets the inbox of DID
	URL   string    `json:"url"`
	Since time.Time `json:"since"`
	// Disabled is when its address said that there is nobody any more; zero before that.
	// Nothing is posted to it from then on, until it is enabled again.
	Disabled time.Time `json:"disabled,omitzero"`
	Why      string    `json:"why,omitempty"` // it is disabled
}

// Push is one thing that a hook is owed, or was: a step, a notice, or what a network's own
// tables hold for a participant. The pushes of one handoff are a lane, as the rows of a feed are: they are made in
// their order, notices after steps, and hold up no others.
type Push struct {
	Item    int64         // position among those of its hook; notices come last
	Entry   Entry         // of an inbox, with its cursor and number; zero for all else
	Notice  Notice        // on the [RESTLink], with its cursor; zero for all else
	Content Content       // of a network's own tables, for a participant; nil for all else
	State   DeliveryState // waiting, delivered, refused or dead
	Queued  time.Time
	Attempt int       // how often it was made, and failed
	Next    time.Time // of one that waits: when it is made; zero for at once, or behind another one of its lane
	Reason  string    // why the last attempt failed; of one that is over, why it was not delivered
	Ended   time.Time // zero while it waits
	// Broken is why the record cannot read it; "" for one that it can.
	Broken string
}

// Ref names what is pushed: the id of the step, that of the message, or [Notice.Ref].
func (p Push) Ref() string {
	switch {
	case p.Notice.Kind != "":
		return p.Notice.Ref()
	case !p.Entry.Event.ID.IsZero():
		return p.Entry.Event.ID.String()
	case p.Content != nil:
		return p.Content.Ref()
	}
	return ""
}

// Handoff returns the handoff that it is about, none where it is about no step.
func (p Push) Handoff() HandoffID {
	if p.Notice.Kind != "" {
		return p.Notice.Event.Handoff
	}
	if p.Content != nil {
		return p.Content.About()
	}
	return p.Entry.Event.Handoff
}

// Content is what a network's own tables hold for a participant. The network that filed it
// knows its type; the record and the webhooks do not look inside.
type Content interface {
	// Ref names it among what its participant gets.
	Ref() string
	// About returns the handoff that it is about, the zero ID where there is none.
	About() HandoffID
	// Place is its position among what its participant gets, from 1.
	Place() uint64
}

// HookBacklog is what one hook has still to be told, and what it never was.
type HookBacklog struct {
	Backlog

	Dead int // given up, and not put back
}

// Hooks keeps hooks, and what each is owed. What enters an inbox, and what its owner is told
// on the [RESTLink], is owed to the hooks of that inbox in the same transaction. Its
// promises are those of [Store].
type Hooks interface {
	// AddHook keeps a hook. What waits in its inbox is owed to it from then on, as is what
	// comes. It returns [ErrTooManyHooks] where the DID has that many already, and
	// [ErrTaken] where it has one with that address.
	AddHook(ctx context.Context, h Hook, most int) error
	// Hook returns [ErrNotFound] for an id that no hook has.
	Hook(ctx context.Context, id HookID) (Hook, error)
	// Hooks returns up to limit hooks of a DID, or with "" of everybody, by id after one,
	// or from the start with the zero id.
	Hooks(ctx context.Context, of DID, after HookID, limit int) ([]Hook, error)
	// RemoveHook forgets a hook with all that it was owed. It returns [ErrNotFound] as Hook
	// does.
	RemoveHook(ctx context.Context, id HookID) error
	// DisableHook notes that a hook is called no more, and files a [NoticeDisabled]. What it
	// was owed is refused; it stays in the inbox. Doing it again changes nothing.
	DisableHook(ctx context.Context, id HookID, why string, now time.Time) error
	// EnableHook has a hook called again that was disabled. What waits in its inbox is owed
	// to it from then on, counted anew; what was given up stays so. One that is not
	// disabled stays as it is. It returns [ErrNotFound] as Hook does.
	EnableHook(ctx context.Context, id HookID) error
	// TakeHooks returns up to limit hooks that something is due to, those first that have
	// waited longest, for the caller alone: nobody else is given one before it is let go,
	// or until a time.
	TakeHooks(ctx context.Context, now, until time.Time, limit int) ([]Hook, error)
	// LetGo ends that. A hook to which something is due by then comes after those that
	// wait for their turn.
	LetGo(ctx context.Context, id HookID, now time.Time) error
	// NextDue returns when something is due to a hook next, after a time; zero for nothing.
	NextDue(ctx context.Context, after time.Time) (time.Time, error)
	// NextPush returns what is due first to a hook, or [ErrNotFound] where nothing is.
	NextPush(ctx context.Context, id HookID, now time.Time) (Push, error)
	// PushFailed notes that an attempt came to nothing, and when the next one is. One that
	// is Counted is only put off.
	PushFailed(ctx context.Context, id HookID, item int64, f Failure) error
	// PushEnded ends the waiting of a push. What was delivered waits in its inbox no more,
	// as after [Inboxes.Read]; of a step that was given up there is a dead letter, of which
	// nobody is told: it waits in the inbox on.
	PushEnded(ctx context.Context, id HookID, item int64, s Settlement) error
	// PushAgain puts back what a [Push.Ref] names, or with "" all that was not delivered,
	// to be made at once and counted anew. It returns how many there are; [ErrNotFound]
	// for a hook that is not there.
	PushAgain(ctx context.Context, id HookID, ref string, now time.Time) (int, error)
	// Pushes returns up to limit of what a hook is owed and was, the newest first, before
	// a position, or from the start with 0.
	Pushes(ctx context.Context, id HookID, before int64, limit int) ([]Push, error)
	// HookBacklog counts what waits for a hook.
	HookBacklog(ctx context.Context, id HookID) (HookBacklog, error)
	// HooksBacklog counts what waits for all of them.
	HooksBacklog(ctx context.Context) (Backlog, error)
}
