package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/baton-gateway/baton/bridge/files/directory"
	"github.com/baton-gateway/baton/bridge/stepbuilder"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/voicefile"
)

const defaultLifetime = 24 * time.Hour

const maxNames = 1000

// An earlier attempt may have written the file, and the agent may have moved it.
func (l *VoiceLink) writeOffer(ctx context.Context, d federation.Delivery) error {
	ev := d.Entry.Event
	if _, there := l.paths[ev.Handoff]; there || d.View.Over {
		return nil
	}
	if err := l.scan(ctx); err != nil {
		return err
	}
	if _, there := l.paths[ev.Handoff]; there {
		return nil
	}
	content, file, err := l.fileOf(ctx, d)
	if err != nil {
		return err
	}
	for n := range maxNames {
		path := filepath.Join(l.cfg.Dir, pendingFolder, fmt.Sprintf("%s-%d.json", file.Caller, n))
		err := directory.Create(path, content, 0o644) // the agents run as other users, and must be able to read it
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return broken(err)
		}
		return l.look(ctx, path)
	}
	return away(l.name, fmt.Errorf("%d files of one caller wait", maxNames))
}

func (l *VoiceLink) fileOf(ctx context.Context, d federation.Delivery) ([]byte, voicefile.File, error) {
	ev := d.Entry.Event
	if ev.Arrival.Link == l.name {
		content, file, err := l.startedFile(ctx, ev.Handoff)
		if err != nil || content != nil {
			return content, file, err
		}
	}
	from, err := l.nameOf(ctx, ev.Actor())
	if err != nil {
		return nil, voicefile.File{}, err
	}
	to, err := l.nameOf(ctx, ev.Offeree())
	if err != nil {
		return nil, voicefile.File{}, err
	}
	secrets := l.secrets.pairs[pairOf(from, to)]
	switch {
	case from == "":
		return nil, voicefile.File{}, denied(ev, "the offerer has no name in the directory "+l.name)
	case len(secrets) == 0:
		return nil, voicefile.File{}, denied(ev, fmt.Sprintf("no secret is configured for %s and %s", from, to))
	}
	content, file, err := voicefile.Encode(voicefile.Offer{
		Step: translate.Step{Entry: d.Entry, View: d.View}, From: from, To: to, Now: time.Now(), Lifetime: defaultLifetime,
	}, secrets[0])
	if invalid, ok := errors.AsType[*voicefile.Error](err); ok {
		return nil, file, federation.Refuse(ev, federation.DeadlinePassed, invalid.Detail)
	}
	return content, file, err
}

// If an agent moved the file, the new folder is a step of that agent.
func (l *VoiceLink) judgeOutbound(ctx context.Context, v voice, file voicefile.File) error {
	id, ok, err := l.handoffOf(ctx, file)
	if err != nil || !ok {
		return err
	}
	view, err := l.view(ctx, id)
	if err != nil {
		return err
	}
	agent, err := l.didOf(ctx, file.To)
	if err != nil {
		return err
	}
	if !view.Exists() {
		return nil // names an unknown handoff
	}
	if same, err := l.ports.Gateway.Same(ctx, view.Offeree, agent); err != nil || !same {
		return err // names a handoff of other parties
	}
	l.see(v.path, id, file)
	expected, err := l.expected(ctx, id, view.Offeree)
	if err != nil {
		return err
	}
	for _, verb := range voiceVerbs(v.folder(), expected) {
		if verb == federation.Decline && time.Now().After(file.Expires) && !view.Deadline.IsZero() {
			return nil // the home will expire it
		}
		if view, err = l.report(ctx, v, file, view, agent, verb); err != nil {
			return err
		}
	}
	if err := l.place(ctx, v, file, view); err != nil {
		return err
	}
	return l.keepStarted(ctx, view)
}

// voiceVerbs returns the steps by which the folder of a file is ahead of its handoff.
func voiceVerbs(folder string, view federation.View) []federation.Verb {
	var due []federation.Verb
	switch folder {
	case claimedFolder:
		due = []federation.Verb{federation.Accept}
	case archiveFolder:
		due = []federation.Verb{federation.Accept, federation.Complete}
	case rejectedFolder:
		due = []federation.Verb{federation.Decline}
		if view.State == federation.Assigned {
			due = []federation.Verb{federation.Fail}
		}
	}
	switch {
	case view.Over:
		return nil
	case view.State == federation.Assigned:
		return slices.DeleteFunc(due, func(v federation.Verb) bool { return v == federation.Accept })
	}
	return due
}

// report returns the handoff after the step. It logs a refused step; the state of the handoff then
// decides about the file.
func (l *VoiceLink) report(
	ctx context.Context, v voice, file voicefile.File, view federation.View, agent federation.DID, verb federation.Verb,
) (federation.View, error) {
	note := ""
	if verb == federation.Decline || verb == federation.Fail {
		if sidecar, err := directory.Read(v.path+".reason", voicefile.MaxBytes); err == nil {
			reason := voicefile.ReadReason(sidecar)
			note = plain(reason.Detail)
			if note == "" {
				note = plain(string(reason.Code))
			}
		}
	}
	err := l.submit(ctx, stepbuilder.Draft{From: agent, Verb: verb, Note: note, Original: string(v.content)}, view, file.To)
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		l.log.LogAttrs(ctx, slog.LevelInfo, "step of the directory refused", slog.String("handoff_id", view.ID.String()),
			slog.String("verb", string(verb)), slog.String("code", string(refused.Code)))
		err = nil
	}
	if err != nil {
		return view, err
	}
	return l.view(ctx, view.ID)
}

// handoffOf returns false for a file not written by the gateway.
func (l *VoiceLink) handoffOf(ctx context.Context, file voicefile.File) (federation.HandoffID, bool, error) {
	if id, ok, err := l.startedAs(ctx, file); ok || err != nil {
		return id, ok, err
	}
	carry := voicefile.ReadCarry(file.Carry)
	id, err := federation.ParseEventID(carry.ID)
	if err != nil || file.Caller != voicefile.CallerHash(carry.ID) {
		return federation.HandoffID{}, false, nil //nolint:nilerr // it names no handoff
	}
	return id, true, nil
}

// clockSkew bounds how far a signer's clock may be ahead of ours.
const clockSkew = 2 * time.Minute

func fileKey(file voicefile.File) string { return "voice\x00" + file.ID + "\x00" + file.Key }

func (l *VoiceLink) judgeInbound(ctx context.Context, v voice) error {
	switch v.folder() {
	case pendingFolder:
		return l.pickUp(ctx, v)
	case claimedFolder:
		file, err := v.sealed.Trusted(l.secretsOf(v.sealed))
		if err != nil {
			return nil //nolint:nilerr // another program claimed it
		}
		l.took(v.path, file.Key)
		switch filepath.Base(v.path) {
		case file.ClaimName(l.ports.Home):
			return l.custody(ctx, v, file)
		case file.SharedClaimName():
			s, err := l.glance(ctx, fileKey(file))
			if err != nil || s.Digest != sha256.Sum256(v.content) || string(s.Body) == namedState {
				return err
			}
			claimed := filepath.Join(l.cfg.Dir, claimedFolder, file.ClaimName(l.ports.Home))
			switch err := directory.Claim(v.path, claimed); {
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrExist):
				l.forget(v.path)
				return nil
			case err != nil:
				return broken(err)
			}
			l.carry(v.path, claimed)
			return l.again(ctx, claimed, l.custody(ctx, voice{claimed, v.content, v.sealed}, file))
		}
	case archiveFolder, rejectedFolder:
		file, err := v.sealed.Trusted(l.secretsOf(v.sealed))
		if err == nil && (v.folder() == archiveFolder || endsWork(v.path)) {
			l.took(v.path, file.Key)
		}
	}
	return nil
}

// The sidecar of a rejected file that was claimed before has the outcome of the handoff.
func endsWork(path string) bool {
	sidecar, err := directory.Read(path+".reason", voicefile.MaxBytes)
	ends := []voicefile.Code{voicefile.Declined, voicefile.Failed, voicefile.Cancelled}
	return err == nil && slices.Contains(ends, voicefile.ReadReason(sidecar).Code)
}

// namedState is the body of a slot whose file was claimed under a name with a hash of its gateway.
const namedState = "named"

func (l *VoiceLink) pickUp(ctx context.Context, v voice) error {
	now := time.Now()
	file, err := v.sealed.Open(l.secretsOf(v.sealed), now, clockSkew)
	if limit := l.ports.Limits.Current().MaxDeadline; err == nil && limit > 0 && file.Expires.After(now.Add(limit)) {
		err = &voicefile.Error{Code: voicefile.BadTime, Detail: "expires_at is more than " + limit.String() + " from now"}
	}
	if invalid, ok := errors.AsType[*voicefile.Error](err); ok {
		return l.reject(ctx, v, voicefile.File{}, invalid)
	}
	s, err := l.reserve(ctx, fileKey(file), sha256.Sum256(v.content), []byte(namedState), file.Expires)
	if err != nil {
		return err // leave it in place until the record can be written
	}
	view, err := l.view(ctx, s.Event)
	if err != nil {
		return err
	}
	taken, err := l.wasTaken(file)
	if err != nil {
		return err
	}
	if view.Exists() || taken {
		return l.reject(ctx, v, voicefile.File{}, &voicefile.Error{Code: voicefile.Replayed, Detail: "this file was imported before"})
	}
	claimed := filepath.Join(l.cfg.Dir, claimedFolder, file.ClaimName(l.ports.Home))
	switch err := directory.Claim(v.path, claimed); {
	case errors.Is(err, fs.ErrNotExist): // another program claimed it
		l.forget(v.path)
		return nil
	case errors.Is(err, fs.ErrExist):
		return l.reject(ctx, v, voicefile.File{}, &voicefile.Error{Code: voicefile.Replayed, Detail: "the same file is claimed"})
	case err != nil:
		return broken(err)
	}
	l.see(v.path, federation.HandoffID{}, file)
	l.carry(v.path, claimed)
	return l.offerClaimed(ctx, voice{claimed, v.content, v.sealed}, file)
}

// offerClaimed puts the file back if another program changed it before the claim. If two gateways
// claim copies, the later one sees the earlier claim and also puts its file back.
func (l *VoiceLink) offerClaimed(ctx context.Context, v voice, file voicefile.File) error {
	content, err := directory.Read(v.path, voicefile.MaxBytes)
	taken, unread := l.wasTaken(file)
	if err == nil && unread == nil && !taken && bytes.Equal(content, v.content) {
		return l.again(ctx, v.path, l.custody(ctx, v, file))
	}
	back := filepath.Join(l.cfg.Dir, pendingFolder, filepath.Base(v.path))
	if err := directory.Move(v.path, back); err != nil {
		return broken(fmt.Errorf("put a changed file back: %w", err))
	}
	l.forget(v.path)
	return unread
}

func (l *VoiceLink) again(ctx context.Context, path string, err error) error {
	if err == nil {
		return nil
	}
	if seen, known := l.found[path]; known {
		seen.again = true
		l.found[path] = seen
	}
	return l.fault(ctx, path, err)
}

// After the claim, expires_at is the deadline of the handoff.
func (l *VoiceLink) custody(ctx context.Context, v voice, file voicefile.File) error {
	s, err := l.reserve(ctx, fileKey(file), sha256.Sum256(v.content), []byte(namedState), file.Expires)
	if err != nil {
		return err
	}
	view, err := l.view(ctx, s.Event)
	if err != nil {
		return err
	}
	if !view.Exists() {
		s, err = l.offerFile(ctx, s, file, string(v.content))
		if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
			return l.reject(ctx, v, file, rejection(refused))
		}
		if err != nil {
			return err
		}
	}
	l.see(v.path, s.Event, file)
	l.took(v.path, file.Key)
	switch {
	case view.Over:
		if err := l.place(ctx, v, file, view); err != nil {
			return err
		}
		return l.release(ctx, s, file.Expires)
	case view.State == federation.Assigned:
		return l.accepted(ctx, file)
	}
	return nil
}

func (l *VoiceLink) offerFile(ctx context.Context, s slot, file voicefile.File, original string) (slot, error) {
	from, err := l.didOf(ctx, file.From)
	if err != nil {
		return s, err
	}
	to, err := l.didOf(ctx, file.To)
	if err != nil {
		return s, err
	}
	return l.offer(ctx, s, stepbuilder.Draft{
		From: from, To: to, Title: titled(file.Reason), Context: file.Context, Deadline: file.Expires, Original: original,
	}, file.From)
}
