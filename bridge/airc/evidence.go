package airc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/gowebpki/jcs"

	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/aircmsg"
)

// getEvidence reports private evidence as missing without the capability in the address or the token of
// a party.
func (l *Link) getEvidence(c *call) (answer, error) {
	var digest [sha256.Size]byte
	name := c.PathValue("sha256")
	b, err := hex.DecodeString(name)
	if err != nil || copy(digest[:], b) != len(digest) || hex.EncodeToString(digest[:]) != name {
		return answer{}, wire.Refuse(wire.CodeNotFound, "evidence is named by a SHA-256 in 64 lower-case hex characters")
	}
	text, err := l.deps.Record.Evidence(c.Context(), digest)
	if errors.Is(err, federation.ErrNotFound) {
		return answer{}, errNoEvidence()
	}
	if err != nil {
		return answer{}, fmt.Errorf("read evidence: %w", err)
	}
	view, err := l.deps.Record.EvidenceOf(c.Context(), digest)
	if err != nil {
		return answer{}, fmt.Errorf("read evidence: %w", err)
	}
	if !federation.Private(view.Venue) {
		return answer{status: http.StatusOK, body: raw(text), keep: true}, nil
	}
	opens, err := signing.OpensEvidence(c.Context(), digest, c.URL.Query(), l.deps.Signer.Kept(signing.EvidenceSecret))
	switch {
	case err != nil:
		return answer{}, fmt.Errorf("read evidence: %w", err)
	case !opens && !l.isParty(c, view):
		return answer{}, errNoEvidence()
	}
	return answer{status: http.StatusOK, body: raw(text)}, nil
}

func errNoEvidence() error {
	return wire.Refuse(wire.CodeNotFound, "no step here refers to this evidence")
}

func (l *Link) isParty(c *call, v federation.View) bool {
	parties := v.Others("")
	if agent, err := c.caller(); err == nil {
		return slices.ContainsFunc(parties, agent.Is)
	}
	who, ok, err := l.deps.Authenticate(c.Request)
	return err == nil && ok && slices.Contains(parties, who.DID)
}

type uploaded struct {
	URL       string `json:"url"`
	SHA256    string `json:"sha256"` // hex
	ExpiresAt int64  `json:"expiresAt"`
}

// postBlob counts against the agent's rate limit like a message.
func (l *Link) postBlob(c *call) (answer, error) {
	agent, err := c.caller()
	if err != nil {
		return answer{}, err
	}
	if wait := l.deps.Take(agent.DID, time.Now()); wait > 0 {
		return answer{}, wire.TooMany(wait)
	}
	limit := l.deps.Limits.Current().ContextBytes
	content, err := io.ReadAll(io.LimitReader(c.Body, limit+1))
	if err != nil {
		return answer{}, &wire.ProblemError{Code: wire.CodeBadRequest, Message: "the body ended too early", Unreadable: "cut"}
	}
	blob, err := l.deps.Evidence.Store(c.Context(), agent.DID, content)
	switch {
	case errors.Is(err, federation.ErrBlobTooLarge):
		_, _ = io.CopyN(io.Discard, c.Body, drainBytes)
		return answer{}, &wire.ProblemError{Code: wire.CodePayloadTooLarge, Unreadable: "size", Message: fmt.Sprintf("a context is at most %d bytes", limit)}
	case errors.Is(err, federation.ErrBlobQuota):
		return answer{}, &wire.ProblemError{Code: wire.CodeRateLimited, Message: "the storage quota of this agent is used up", RetryAfter: wire.FullRetry}
	case err != nil:
		return answer{}, err
	}
	return answer{status: http.StatusCreated, body: uploaded{
		URL: blob.URL(l.deps.PublicURL), SHA256: hex.EncodeToString(blob.Digest[:]), ExpiresAt: blob.Expires.Unix(),
	}}, nil
}

// fit moves the context, and then the proof, into references until the payload fits. A limit of zero
// means no limit. A step that still exceeds the limit is sent anyway.
//
// spec: airc-shapes "A step as payload"
func (l *Link) fit(ctx context.Context, step translate.Step, out aircmsg.Out, limit int) (aircmsg.Message, string, error) {
	said, losses, err := aircmsg.Encode(step, out)
	fits := err == nil && within(said, limit)
	if err == nil && federation.InlineContext(step.Event.Context) && (!fits || federation.Loses(losses, "context")) {
		if step.Event, err = l.deps.Evidence.Refer(ctx, step.Event); err != nil {
			return said, "", fmt.Errorf("store context: %w", err)
		}
		said, losses, err = aircmsg.Encode(step, out)
		fits = err == nil && within(said, limit)
	}
	if err == nil && !fits {
		if out.Evidence, err = l.evidenceOf(ctx, step.Event); err != nil {
			return said, "", err
		}
		said, losses, err = aircmsg.Encode(step, out)
		if err == nil && !within(said, limit) {
			l.deps.Log.LogAttrs(ctx, slog.LevelInfo, "payload is larger than its recipient accepts", slog.String("network", wire.Network),
				slog.String("link", wire.Network), slog.String("handoff_id", step.Event.Handoff.String()), slog.Int("limit", limit))
		}
	}
	for _, loss := range losses {
		l.deps.Log.LogAttrs(ctx, slog.LevelInfo, "message carries a step in part",
			slog.String("network", wire.Network), slog.String("link", wire.Network),
			slog.String("handoff_id", step.Event.Handoff.String()), slog.String("event_id", step.Event.ID.String()),
			slog.String("field", loss.Field), slog.String("fate", string(loss.Fate)), slog.String("reason", loss.Why))
	}
	return said, step.Event.Context, err
}

// stateRoom is the size of `"state_now":"",` and the longest state, which may be added later.
const stateRoom = 47

// within passes a payload without a canonical form, because signing it returns the error.
func within(said aircmsg.Message, limit int) bool {
	if limit <= 0 {
		return true
	}
	text, err := wire.Marshal(said.Payload)
	if err != nil {
		return true
	}
	canonical, err := jcs.Transform(text)
	return err != nil || len(canonical)+stateRoom <= limit
}

// evidenceOf returns a location whose contents are on disk.
func (l *Link) evidenceOf(ctx context.Context, ev federation.Event) (*aircmsg.Evidence, error) {
	if ev.Evidence == nil {
		original, err := l.deps.EvidenceOf(ctx, signing.OriginalOf(ev.Signature, ev.Arrival), ev.Venue)
		if err == nil {
			err = l.deps.Evidence.Keep(ctx, ev.Handoff, original)
		}
		if err != nil {
			return nil, fmt.Errorf("keep evidence of %s: %w", ev.ID, err)
		}
		ev.Evidence = &original
	}
	return &aircmsg.Evidence{URL: ev.Evidence.URL, SHA256: hex.EncodeToString(ev.Evidence.Digest[:])}, nil
}
