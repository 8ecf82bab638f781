package files

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"net/http"
	"time"

	"github.com/baton-gateway/baton/bridge/files/directory"
	"github.com/baton-gateway/baton/bridge/stepbuilder"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/voicefile"
)

// startKey maps a handoff_id of the hub to its handoff in the record; startedKey is the reverse.
func startKey(id string) string { return "hub\x00" + id }

func startedKey(id federation.HandoffID) string { return "started\x00" + id.String() }

// A repeated handoff gets the same response; another handoff with its handoff_id is a conflict. The
// delivery of the offer writes the file.
func (l *VoiceLink) start(ctx context.Context, body []byte, sealed voicefile.Sealed) (hubAnswer, error) {
	file, err := sealed.Trusted(l.secretsOf(sealed))
	if len(l.secretsOf(sealed)) == 0 {
		err = &voicefile.Error{Code: voicefile.NoSecret, Detail: "no secret is configured for the two agents"}
	}
	if err != nil {
		return hubError(file.ID, err), nil
	}
	answer := hubAnswer{HandoffID: file.ID, Status: hubPending, ExpiresAt: file.Expires.UTC().Format(time.RFC3339Nano), code: http.StatusCreated}
	s, err := l.reserve(ctx, startKey(file.ID), sha256.Sum256([]byte(file.Key)), body, file.Expires)
	if err != nil {
		return answer, err
	}
	view, err := l.view(ctx, s.Event)
	switch {
	case err != nil:
		return answer, err
	case view.Exists() && s.Digest != sha256.Sum256([]byte(file.Key)):
		return hubAnswer{HandoffID: file.ID, Error: "another handoff has this handoff_id", code: http.StatusConflict}, nil
	case view.Exists():
		return answer, nil
	}
	if _, err := sealed.Open(l.secretsOf(sealed), time.Now(), clockSkew); err != nil {
		return hubError(file.ID, err), nil
	}
	return answer, l.startHandoff(ctx, s, file, body)
}

func (l *VoiceLink) startHandoff(ctx context.Context, s slot, file voicefile.File, body []byte) (err error) {
	s.Digest, s.Body = sha256.Sum256([]byte(file.Key)), body
	if !s.fresh { // the ID may be too old, and the body of an earlier attempt
		if s, err = l.remint(ctx, s); err != nil {
			return err
		}
	}
	if _, err := l.reserveAs(ctx, startedKey(s.Event), [32]byte{}, s.Event, []byte(file.ID), file.Expires); err != nil {
		return err
	}
	if _, err := l.reserveAs(ctx, fileKey(file), sha256.Sum256(body), s.Event, nil, file.Expires); err != nil {
		return err
	}
	_, err = l.offerFile(ctx, s, file, string(body))
	return err
}

// startedFile returns nil for a handoff not begun at the hub.
func (l *VoiceLink) startedFile(ctx context.Context, id federation.HandoffID) ([]byte, voicefile.File, error) {
	s, err := l.glance(ctx, startedKey(id))
	if err != nil || len(s.Body) == 0 {
		return nil, voicefile.File{}, err
	}
	original, err := l.glance(ctx, startKey(string(s.Body)))
	if err != nil || len(original.Body) == 0 {
		return nil, voicefile.File{}, err
	}
	sealed, err := voicefile.Read(original.Body)
	if err != nil {
		return nil, voicefile.File{}, err
	}
	file, err := sealed.Trusted(l.secretsOf(sealed))
	return original.Body, file, err
}

// startedAs returns false for a file not begun at the hub.
func (l *VoiceLink) startedAs(ctx context.Context, file voicefile.File) (federation.HandoffID, bool, error) {
	if l.secrets.hub[file.From] == "" {
		return federation.HandoffID{}, false, nil
	}
	s, err := l.glance(ctx, startKey(file.ID))
	ours := err == nil && len(s.Body) > 0 && s.Digest == sha256.Sum256([]byte(file.Key))
	return s.Event, ours, err
}

// The slots of a handoff answer a repeated start until the file expires.
func (l *VoiceLink) keepStarted(ctx context.Context, view federation.View) error {
	if len(l.secrets.hub) == 0 || !view.Over && view.State != federation.Assigned {
		return nil
	}
	_, file, err := l.startedFile(ctx, view.ID)
	if err != nil || file.ID == "" {
		return err
	}
	for _, key := range []string{startKey(file.ID), startedKey(view.ID), fileKey(file)} {
		s, err := l.glance(ctx, key)
		switch {
		case err != nil:
			return err
		case s.fresh: // already released
		case view.Over:
			err = l.release(ctx, s, file.Expires)
		default:
			_, err = l.hold(ctx, s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type waiting struct {
	voice

	file    voicefile.File
	handoff federation.HandoffID // zero for none
}

func (l *VoiceLink) each(agent string, do func(waiting) (bool, error)) error {
	for path, seen := range l.found {
		if seen.to != agent {
			continue
		}
		content, err := directory.Read(path, voicefile.MaxBytes)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another program is moving it
		}
		if err != nil {
			return err
		}
		sealed, err := voicefile.Read(content)
		if err != nil {
			continue
		}
		file, err := sealed.Trusted(l.secretsOf(sealed))
		if err != nil {
			continue
		}
		if more, err := do(waiting{voice{path, content, sealed}, file, seen.handoff}); err != nil || !more {
			return err
		}
	}
	return nil
}

// waits reports whether a file is pending, or in the gateway's custody with an offered handoff.
func (l *VoiceLink) waits(ctx context.Context, w waiting) (bool, error) {
	switch {
	case w.folder() == pendingFolder:
		return true, nil
	case w.folder() != claimedFolder || w.handoff.IsZero() || !l.represents(w.file.To):
		return false, nil
	}
	view, err := l.view(ctx, w.handoff)
	return view.State == federation.Offered, err
}

func (l *VoiceLink) represents(agent string) bool {
	_, ok := l.agents[agent]
	return ok
}

// The file moves as if the agent had moved it.
func (l *VoiceLink) step(ctx context.Context, agent, id, verb, reason string) (hubAnswer, error) {
	if err := l.scan(ctx); err != nil {
		return hubAnswer{}, err
	}
	found, err := l.named(agent, id)
	switch {
	case err != nil:
		return hubAnswer{}, err
	case found == nil && l.someOther(agent, id):
		return hubAnswer{HandoffID: id, Error: "the handoff is for another agent", code: http.StatusForbidden}, nil
	case found == nil:
		return hubAnswer{HandoffID: id, Error: "no such handoff", code: http.StatusNotFound}, nil
	}
	conflict := hubAnswer{HandoffID: id, Error: "the handoff is not in a state for this", code: http.StatusConflict}
	for _, w := range found {
		waits, err := l.waits(ctx, w)
		if err != nil {
			return hubAnswer{}, err
		}
		did, err := l.stepOf(ctx, w, verb, waits, reason)
		if err != nil {
			return hubAnswer{}, err
		}
		if did {
			return hubAnswer{HandoffID: id, Status: map[string]string{"accept": hubAccepted, "complete": hubCompleted, "reject": hubRejected}[verb], code: http.StatusOK}, nil
		}
	}
	return conflict, nil
}

func (l *VoiceLink) named(agent, id string) ([]waiting, error) {
	var found []waiting
	err := l.each(agent, func(w waiting) (bool, error) {
		if w.file.ID == id {
			found = append(found, w)
		}
		return true, nil
	})
	return found, err
}

func (l *VoiceLink) someOther(agent, id string) bool {
	for _, seen := range l.found {
		if seen.id == id && seen.to != agent {
			return true
		}
	}
	return false
}

// stepOf returns false if the state of the file does not allow the step.
func (l *VoiceLink) stepOf(ctx context.Context, w waiting, verb string, waits bool, reason string) (bool, error) {
	taken := w.folder() == claimedFolder && !waits
	switch {
	case verb == "complete" && !taken, verb == "accept" && !waits, verb == "reject" && !waits && !taken:
		return false, nil
	case l.represents(w.file.To):
		return l.stepOfOurs(ctx, w, verb, reason)
	}
	switch verb {
	case "accept":
		to, err := l.move(w.path, claimedFolder, w.file.ClaimName(l.ports.Home))
		if errors.Is(err, fs.ErrExist) || err == nil && to == "" {
			return false, nil // another agent accepted it
		}
		if err != nil {
			return false, err
		}
		l.forget(w.path)
		return l.moves(ctx, to)
	case "complete":
		name := w.file.ArchiveName(time.Now())
		to, err := l.move(w.path, archiveFolder, name, w.file.Key+"-"+name)
		if err != nil || to == "" {
			return false, err
		}
		l.forget(w.path)
		return l.moves(ctx, to)
	}
	code := voicefile.Declined
	if taken {
		code = voicefile.Failed
	}
	if err := l.reject(ctx, w.voice, w.file, &voicefile.Error{Code: code, Detail: cmp.Or(reason, "rejected at the hub")}); err != nil {
		return false, err
	}
	if to, ours := l.paths[w.handoff]; ours && !w.handoff.IsZero() {
		delete(l.found, to) // forces the next scan to read it and file the step
		_, err := l.moves(ctx, to)
		return true, err
	}
	return true, nil
}

// moves returns false if the home refused the step: the file has since moved on.
func (l *VoiceLink) moves(ctx context.Context, path string) (bool, error) {
	if err := l.look(ctx, path); err != nil {
		return false, err
	}
	_, there := l.found[path]
	return there, nil
}

func (l *VoiceLink) stepOfOurs(ctx context.Context, w waiting, verb, reason string) (bool, error) {
	view, err := l.view(ctx, w.handoff)
	if err != nil || !view.Exists() {
		return false, err
	}
	agent := l.agents[w.file.To]
	expected, err := l.expected(ctx, w.handoff, agent)
	if err != nil {
		return false, err
	}
	step := map[string]federation.Verb{"accept": federation.Accept, "complete": federation.Complete, "reject": federation.Decline}[verb]
	if verb == "reject" && expected.State == federation.Assigned {
		step = federation.Fail
	}
	err = l.submit(ctx, stepbuilder.Draft{From: agent, Verb: step, Note: plain(reason), Original: string(w.content)}, view, w.file.To)
	if _, refused := errors.AsType[*federation.RefusalError](err); refused {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if view, err = l.view(ctx, view.ID); err != nil {
		return false, err
	}
	return true, l.follow(ctx, view)
}
