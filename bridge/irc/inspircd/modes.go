package inspircd

import (
	"context"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/translate"
)

// Channel modes in use, as in CAPAB CHANMODES.
const (
	banMode          = "ban"
	banExceptionMode = "banexception"
	blockColourMode  = "blockcolor"
	inviteExceptMode = "invex"
	inviteOnlyMode   = "inviteonly"
	keyMode          = "key"
	limitMode        = "limit"
	moderatedMode    = "moderated"
	noOutsideMode    = "noextmsg"
	permanentMode    = "permanent"
	regInviteMode    = "reginvite"
	regModeratedMode = "regmoderated"
	stripColourMode  = "stripcolor"
)

// CAPAB CHANMODES has these kinds of modes.
const (
	listKind   = "list"      // a parameter to set and to unset, many at a time
	paramKind  = "param"     // a parameter to set and to unset
	setKind    = "param-set" // a parameter only to set
	prefixKind = "prefix"    // a status of the user in the parameter
	simpleKind = "simple"    // no parameter
)

const voiceRank = 10000

// The limit is ten times InspIRCd's. Excess masks count as unreadable lines.
const maxMasks = 1000

type chanMode struct {
	name, kind string
	rank       int
}

// A peer that announces no modes has InspIRCd's defaults.
func defaultModes() map[byte]chanMode {
	return map[byte]chanMode{
		'b': {banMode, listKind, 0}, 'k': {keyMode, paramKind, 0}, 'l': {limitMode, setKind, 0},
		'v': {"voice", prefixKind, voiceRank}, 'o': {"op", prefixKind, 30000},
		'i': {inviteOnlyMode, simpleKind, 0}, 'm': {moderatedMode, simpleKind, 0}, 'n': {noOutsideMode, simpleKind, 0},
		'p': {"private", simpleKind, 0}, 's': {"secret", simpleKind, 0}, 't': {"topiclock", simpleKind, 0},
		'r': {"c_registered", simpleKind, 0}, 'R': {regInviteMode, simpleKind, 0}, 'M': {regModeratedMode, simpleKind, 0},
	}
}

func (t *tree) chanMode(description, letters string) {
	parts := strings.Split(description, ":")
	if letters == "" || len(parts) < 2 {
		return
	}
	mode := chanMode{kind: parts[0], name: parts[len(parts)-1]}
	if len(parts) > 2 {
		mode.rank, _ = strconv.Atoi(parts[1]) // 0 if malformed
	}
	t.modes[letters[len(letters)-1]] = mode
}

// A server ends the link over any letter that is not a status there.
func (t *tree) prefixes(letters string) string {
	return strings.Map(func(letter rune) rune {
		if letter < utf8.RuneSelf && t.modes[byte(letter)].kind == prefixKind { //nolint:gosec // G115: it is one byte
			return letter
		}
		return -1
	}, letters)
}

func (m chanMode) takesParam(adding bool) bool {
	switch m.kind {
	case listKind, paramKind, prefixKind:
		return true
	case setKind:
		return adding
	}
	return false
}

type rules struct {
	flags map[string]bool
	limit int                        // 0 for none
	masks map[string]map[string]bool // by mode name
}

func newRules() rules {
	return rules{flags: map[string]bool{}, masks: map[string]map[string]bool{}}
}

// list returns false if there was no room for the mask.
func (r *rules) list(mode, mask string, set bool) bool {
	masks := r.masks[mode]
	switch {
	case !set:
		delete(masks, mask)
	case len(masks) >= maxMasks:
		return false
	case masks == nil:
		r.masks[mode] = map[string]bool{mask: true}
	default:
		masks[mask] = true
	}
	return true
}

func (r *rules) set(mode, param string, set bool) {
	r.flags[mode] = set
	if mode == limitMode {
		r.limit, _ = strconv.Atoi(param) // InspIRCd accepts only numbers; "" for an unset is 0
	}
}

// change returns false if it could not read all of a mode change, such as "+nb-v" with parameters.
func (s *session) change(ch *channel, modes string, params []string) bool {
	set := true
	for _, letter := range []byte(modes) {
		if letter == '+' || letter == '-' {
			set = letter == '+'
			continue
		}
		mode, known := s.net.modes[letter]
		param := ""
		if known && mode.takesParam(set) {
			if len(params) == 0 {
				return false
			}
			param, params = params[0], params[1:]
		}
		switch {
		case !known:
			return false // unknown parameters
		case mode.kind == listKind:
			if !ch.rules.list(mode.name, param, set) {
				return false
			}
		case mode.kind == prefixKind:
			s.promote(ch, param, letter, set)
		default:
			ch.rules.set(mode.name, param, set)
		}
	}
	return true
}

func (s *session) promote(ch *channel, uuid string, letter byte, set bool) {
	p := s.link.roster.byUUID[uuid]
	if p == nil || !p.In[ch.venue] {
		return
	}
	held := p.memberships[ch.venue]
	held.status = strings.ReplaceAll(held.status, string(letter), "")
	if set {
		held.status += string(letter)
	}
	p.memberships[ch.venue] = held
}

func (s *session) onModes(ctx context.Context, m ircmsg.Message) error {
	ch, ok := s.aged(ctx, m)
	if !ok {
		return nil
	}
	if !s.change(ch, m.Params[2], m.Params[3:]) {
		s.badInput(ctx, malformed, m.Command)
	}
	s.readmit(ch)
	s.changed = true
	return nil
}

// LMODE has a letter, and each mask with its setter and time.
//
// spec: InspIRCd spanning tree 1206, "LMODE"
func (s *session) onMasks(ctx context.Context, m ircmsg.Message) error {
	ch, ok := s.aged(ctx, m)
	if !ok {
		return nil
	}
	mode, fits := s.net.modes[m.Params[2][0]], len(m.Params)%3 == 0 // name, age and letter, then triples
	for at := 3; fits && at < len(m.Params); at += 3 {
		fits = mode.kind == listKind && ch.rules.list(mode.name, m.Params[at], true)
	}
	if !fits {
		s.badInput(ctx, malformed, m.Command)
	}
	s.readmit(ch)
	s.changed = true
	return nil
}

// aged returns false for a channel outside the link, or for a change of a younger channel, whose
// modes are discarded.
func (s *session) aged(ctx context.Context, m ircmsg.Message) (*channel, bool) {
	venue, _ := translate.Channel(m.Params[0])
	ch := s.net.channels[venue]
	if ch == nil {
		return nil, false
	}
	ts, ok := unixSeconds(m.Params[1])
	if !ok || m.Params[2] == "" {
		s.badInput(ctx, malformed, m.Command)
		return nil, false
	}
	return ch, ts <= ch.ts
}
