package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"baton/bridge/files/directory"
	"baton/bridge/stepbuilder"
	"baton/federation"
	"baton/translate"
	"baton/translate/voicefile"
)

// defaultLifetime is how long the file of an offer without a deadline is good.
const defaultLifetime = 24 * time.Hour

// maxNames bounds the names that are tried for a new file.
const maxNames = 1000

// writeOffer writes the file of an offer, unless it is there already: an earlier attempt may have
// written it, and the agent may have moved it.
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
		err := directory.Create(path, content, 0o644) // the agents of the directory are other users
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

// fileOf returns the file of an offer: that of the hub, byte for byte, or a new one.
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

// judgeOutbound does what is due about a file that the gateway wrote: the folder that an agent
// moved it to is a step of that agent.
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
	if !view.Exists() || !l.ports.Gateway.Same(ctx, view.Offeree, agent) {
		return nil // a file that names a handoff of other parties
	}
	l.see(v.path, id, file)
	for _, verb := range voiceVerbs(v.folder(), view) {
		if verb == federation.Decline && time.Now().After(file.Expires) && !view.Deadline.IsZero() {
			return nil // the home ends it with an expiry
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

// voiceVerbs returns the steps that the folder of a file stands for, beyond the state of its
// handoff.
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

// report files a step that an agent took by a move, and returns the handoff after it. A refused
// step is logged: the handoff as it stands decides about the file.
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

// handoffOf returns the handoff that a file of the gateway carries, and false for a file of
// another writer.
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
