package client

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
)

const maxHistory = 100

// spec: ircv3 chathistory
type inquiry struct {
	subcommand    string
	target        string
	first, second reference
	limit         int

	account federation.DID // "" for a guest
	caps    capability
	buffer  buffer
}

type buffer struct {
	name  string
	place federation.ChannelRef
	since time.Time // creation time; earlier messages under its name were sent elsewhere
}

type reference struct {
	at      time.Time
	message string
}

type wrongInquiry struct {
	code, about, sentence string
}

func (s *server) onHistory(ctx context.Context, u *user, m ircmsg.Message) {
	if !u.caps.has(capHistory) || !s.link.cfg.History {
		s.reply(u, errUnknownCommand, m.Command, "Unknown command")
		return
	}
	q, wrong := parseInquiry(m.Params, s.link.atOnce(maxHistory))
	q.account, q.caps = u.account, u.caps
	if wrong == nil && q.subcommand != targetsOf {
		wrong = s.placeInquiry(u, &q)
	}
	if wrong != nil {
		s.fail(u, m.Command, wrong.code, wrong.about, wrong.sentence)
		return
	}
	rooms := s.roomsOf(u)
	answer, written := u.answer, make(chan struct{})
	u.answer = nil
	u.work = func() {
		tell := s.lookUp(ctx, q, rooms)
		if !s.post(func() {
			u.work, u.answer = nil, answer
			tell(u)
			s.close(u)
			u.written = written
			s.touch(u)
		}) {
			return
		}
		select { // limits queued messages if a client sends several requests at once
		case <-written:
		case <-s.ended:
		}
	}
}

const (
	latestOf  = "LATEST"
	beforeOf  = "BEFORE"
	afterOf   = "AFTER"
	aroundOf  = "AROUND"
	betweenOf = "BETWEEN"
	targetsOf = "TARGETS"
)

func parseInquiry(params []string, most int) (q inquiry, wrong *wrongInquiry) {
	if len(params) == 0 {
		return q, &wrongInquiry{"INVALID_PARAMS", "*", "Insufficient parameters"}
	}
	q.subcommand = strings.ToUpper(params[0])
	invalid := func(sentence string) (inquiry, *wrongInquiry) {
		return q, &wrongInquiry{"INVALID_PARAMS", clipParam(q.subcommand), sentence}
	}
	target, references := 1, 1
	switch q.subcommand {
	case latestOf, beforeOf, afterOf, aroundOf:
	case betweenOf:
		references = 2
	case targetsOf:
		target, references = 0, 2
	default:
		return invalid("Unknown command")
	}
	params = params[1:]
	if len(params) != target+references+1 {
		return invalid("Want " + strconv.Itoa(target+references+1) + " parameters")
	}
	if target > 0 {
		q.target, params = params[0], params[1:]
	}
	var err error
	if q.limit, err = strconv.Atoi(params[references]); err != nil || q.limit < 1 {
		return invalid("Invalid limit")
	}
	q.limit = min(q.limit, most)
	into := []*reference{&q.first, &q.second}
	for i, text := range params[:references] {
		if wrong := into[i].parse(text, q.subcommand); wrong != nil {
			return q, wrong
		}
	}
	return q, nil
}

func (r *reference) parse(text, subcommand string) *wrongInquiry {
	kind, value, _ := strings.Cut(text, "=")
	var err error
	switch {
	case text == "*" && subcommand == latestOf:
	case kind == "timestamp":
		r.at, err = time.Parse(time.RFC3339Nano, value)
	case kind == "msgid" && value != "" && subcommand != targetsOf:
		r.message = value
	default:
		return &wrongInquiry{"INVALID_MSGREFTYPE", subcommand + " " + clipParam(text), "Want timestamp=YYYY-MM-DDThh:mm:ss.sssZ or msgid=ID"}
	}
	if err != nil {
		return &wrongInquiry{"INVALID_PARAMS", subcommand, "Invalid timestamp"}
	}
	return nil
}

// The client may read its channels and its own private exchanges.
func (s *server) placeInquiry(u *user, q *inquiry) *wrongInquiry {
	if strings.HasPrefix(q.target, "#") {
		venue, _ := channelName(q.target)
		if c := u.channels[venue]; c != nil {
			q.buffer = s.bufferOf(venue, c)
			return nil
		}
	} else if other := s.correspondent(q.target); u.account != "" && other != "" {
		q.buffer = buffer{name: clipParam(q.target), place: federation.ChannelRef{Venue: federation.PrivateVenue(u.account, other)}}
		return nil
	}
	return &wrongInquiry{"INVALID_TARGET", q.subcommand + " " + clipParam(q.target), "Messages could not be retrieved"}
}

// correspondent returns "" for a guest.
func (s *server) correspondent(target string) federation.DID {
	if did := s.addressee(target); did != "" || s.link.ports.Messages == nil || !irc.ValidNick(target) {
		return did
	}
	return s.link.ports.Messages.Guest(s.link.Name(), target)
}

// bufferOf includes the channel's creation time, because a temporary channel may reuse an earlier
// name.
func (s *server) bufferOf(venue string, c *channel) buffer {
	if c.lasting {
		return buffer{name: c.name, place: federation.ChannelRef{Venue: venue}}
	}
	return buffer{name: c.name, place: federation.ChannelRef{Link: s.link.Name(), Venue: venue}, since: c.made}
}

func (s *server) roomsOf(u *user) []buffer {
	var rooms []buffer
	for _, venue := range sorted(u.channels) {
		rooms = append(rooms, s.bufferOf(venue, u.channels[venue]))
	}
	return rooms
}
