package spanningtree

import (
	"context"
	"errors"
	"log/slog"

	"github.com/ergochat/irc-go/ircmsg"

	"baton/bridge/irc"
	"baton/federation"
)

// refTag says to clients that read tags which handoff a line is about.
//
// spec: handofftag "Humans"
const refTag = "+freeq.at/ref"

// internalError is the word for a failure of this gateway, which is no refusal.
const internalError = "INTERNAL_ERROR"

// errUnreadableTags is why a message is no step: its tags are not UTF-8.
var errUnreadableTags = errors.New("the tags could not be read")

// answer is one of our errors in the words of this network.
type answer struct {
	code     string // first word, and label of the counter
	subject  string // id of the step, or "*"
	sentence string
	ref      string // handoff id; may be empty
}

// answerTo turns one of our errors into what a user is told. It is the only place
// in this package that does. The second result is false for an error that has no
// words here: a not-now, or the end of the program.
//
// spec: handofftag "The client's side"
func answerTo(err error) (answer, bool) {
	if r, ok := errors.AsType[*federation.RefusalError](err); ok {
		return answer{code: r.Code.Upper(), subject: r.Subject(), sentence: r.Sentence(), ref: r.Handoff.String()}, true
	}
	if _, ok := errors.AsType[*federation.UnavailableError](err); ok || errors.Is(err, context.Canceled) {
		return answer{}, false
	}
	if errors.Is(err, errUnreadableTags) {
		return answer{code: federation.InvalidTag.Upper(), subject: "*", sentence: errUnreadableTags.Error()}, true
	}
	return answer{code: internalError, subject: "*", sentence: "the gateway could not judge the step"}, true
}

// refuse logs a refusal that the gateway never saw, and tells the user.
func (s *session) refuse(ctx context.Context, user string, err error) {
	if r, ok := errors.AsType[*federation.RefusalError](err); ok {
		s.log.LogAttrs(ctx, slog.LevelInfo, "step refused", slog.String("event_id", r.Event.String()),
			slog.String("handoff_id", r.Handoff.String()), slog.String("reason", r.Error()))
	}
	s.tell(ctx, user, err)
}

// tell sends a user the NOTICE about a step, from the gateway's own user. FAIL,
// which clients of a listener get, would end a server link.
func (s *session) tell(ctx context.Context, user string, err error) {
	a, has := answerTo(err)
	if !has {
		return
	}
	s.count(ctx, a, err)
	s.say(ctx, user, a)
}

// count counts a refusal, and logs what is none.
func (s *session) count(ctx context.Context, a answer, err error) {
	if a.code == internalError {
		s.log.LogAttrs(ctx, slog.LevelError, "step not judged", slog.Any("err", err))
	} else {
		s.link.ports.Metrics.Refusals.WithLabelValues(network, a.code).Inc()
	}
	if a.code == federation.RateLimited.Upper() {
		s.link.ports.Metrics.Limited.WithLabelValues(network).Inc()
	}
}

// say writes the NOTICE about a step to a user.
func (s *session) say(ctx context.Context, user string, a answer) {
	s.notice(ctx, user, irc.Text(a.code+" "+a.subject+" "+a.sentence), a.ref)
}

// notice writes a NOTICE to a user, from the gateway's own. The reference is to the
// handoff that it is about; it may be empty.
func (s *session) notice(ctx context.Context, user, text, ref string) {
	self := s.link.roster.Self
	s.present(self)
	notice := ircmsg.MakeMessage(nil, self.uuid, "NOTICE", user, text)
	if ref != "" {
		notice.SetTag(refTag, ref)
	}
	notice.ForceTrailing()
	if err := s.putMessage(notice); err != nil {
		s.log.LogAttrs(ctx, slog.LevelError, "user not told", slog.Any("err", err))
	}
}
