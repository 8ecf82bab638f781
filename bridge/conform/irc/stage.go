package irc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
)

type stage struct {
	cfg    Config
	dial   dial
	claims claims
	suffix string // makes nicks and rooms unique
	keys   map[string]federation.SigningKey
	actors map[string]*actor
	synced int // PINGs
	offers int
	offer  federation.Event // last offer, titled with its number
}

// Offerer is the client that makes the offers of the scenes.
const Offerer = "eliza"

func cast() []string { return []string{"alice", "bob", "carol", Offerer, "scholar"} }

type actor struct {
	name, nick string
	wire       *wire
	heard      chan string // closed at the end of the connection
	stop       context.CancelFunc
	kept       []string // received, but not yet matched by a line of the scene
}

const heardLines = 1024

func newStage(cfg Config, dial dial, claimed claims) (*stage, error) {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	s := &stage{cfg: cfg, dial: dial, claims: claimed, suffix: fmt.Sprintf("%x", random), keys: map[string]federation.SigningKey{}, actors: map[string]*actor{}}
	for _, name := range cast() {
		key, err := cfg.Key(name)
		if err != nil {
			return nil, fmt.Errorf("key of %s: %w", name, err)
		}
		s.keys[name] = key
	}
	return s, nil
}

func (s *stage) clear() {
	for _, p := range s.actors {
		p.leave()
	}
}

func (p *actor) leave() {
	p.stop()
	_ = p.wire.close() // its reader ends with it
	for range p.heard {
	}
}

func (s *stage) actor(ctx context.Context, name string) (*actor, error) {
	if p := s.actors[name]; p != nil {
		return p, nil
	}
	if !slices.Contains(cast(), name) {
		return nil, fmt.Errorf("%q is none of the cast", name)
	}
	w, err := s.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	reading, stop := context.WithCancel(ctx)
	p := &actor{name: name, nick: name + s.suffix, wire: w, heard: make(chan string, heardLines), stop: stop}
	s.actors[name] = p
	go p.read(reading)
	return p, nil
}

func (p *actor) read(ctx context.Context) {
	defer close(p.heard)
	for {
		line, err := p.wire.read(ctx)
		if err != nil && !errors.Is(err, irc.ErrLineTooLong) {
			return
		}
		select {
		case p.heard <- line:
		case <-ctx.Done():
			return
		}
	}
}

// fill replaces the placeholders of a scene. {alice} is the nick of a client, {ALICE} the same in
// capital letters and {did alice} her proven DID. {room} is a channel without members. {long} is
// longer than a line, {long tag} is longer than a line's tags, and {bytes} is not valid text.
// {mechanism} is a SASL mechanism of the server.
func (s *stage) fill(text string) string {
	room := "#" + s.suffix + "room"
	pairs := []string{
		"{room}", room, "{ROOM}", strings.ToUpper(room), "{long}", strings.Repeat("x", 600),
		"{long tag}", strings.Repeat("x", 4092), "{bytes}", "\xff\xfe", "{offer}", s.offer.WireID(),
		"{mechanism}", s.claims.mechanism(),
	}
	for _, name := range cast() {
		nick := name + s.suffix
		pairs = append(pairs, "{"+name+"}", nick, "{"+strings.ToUpper(name)+"}", strings.ToUpper(nick), "{did "+name+"}", string(s.keys[name].DID))
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

func (s *stage) send(ctx context.Context, p *actor, line string) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Patience)
	defer cancel()
	return p.wire.write(ctx, line)
}

func (s *stage) waitFor(ctx context.Context, p *actor, text string) (string, error) {
	want, last := parsePattern(text), ""
	for {
		line, err := s.next(ctx, p)
		switch {
		case err != nil:
			return "", fmt.Errorf("%w; the last was %q", err, last)
		case want.fits(line):
			return line, nil
		}
		last = line
	}
}

// next returns each line received by a client once.
func (s *stage) next(ctx context.Context, p *actor) (string, error) {
	if len(p.kept) > 0 {
		line := p.kept[0]
		p.kept = p.kept[1:]
		return line, nil
	}
	timer := time.NewTimer(s.cfg.Patience)
	defer timer.Stop()
	select {
	case line, open := <-p.heard:
		if !open {
			return "", errEnded
		}
		return line, nil
	case <-timer.C:
		return "", errNoMatch
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// sync waits until a client has received all pending lines. Later lines of the scene can still
// match them.
func (s *stage) sync(ctx context.Context, p *actor) error {
	s.synced++
	token := fmt.Sprintf("synced%d", s.synced)
	if err := s.send(ctx, p, "PING "+token); err != nil {
		return err
	}
	before := p.kept
	p.kept = nil
	for {
		line, err := s.next(ctx, p)
		switch {
		case err != nil:
			return err
		case parsePattern("PONG * " + token).fits(line):
			p.kept = before
			return nil
		}
		before = append(before, line)
	}
}
