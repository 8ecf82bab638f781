package airc

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// The other agents of the suite. Grace accepts the sender and blocks Mallory.
const (
	recipient = "grace"
	stranger  = "mallory"
)

func publishesItself(ctx context.Context, s *stage) error {
	got, err := s.succeed(ctx, "", http.MethodGet, wellKnown, nil)
	if err != nil {
		return err
	}
	key, err := base64.RawURLEncoding.DecodeString(got.text("publicKey"))
	if err != nil {
		return fmt.Errorf("publicKey is %q, want 32 bytes in base64url", got.text("publicKey"))
	}
	if _, err := federation.ParsePublicKey(key); err != nil {
		return fmt.Errorf("publicKey is %q: %w", got.text("publicKey"), err)
	}
	if got.text("domain") == "" || got.text("kid") == "" {
		return fmt.Errorf("domain or kid is missing: %v", got.body)
	}
	return nil
}

func registersByProof(ctx context.Context, s *stage) error {
	_, err := s.actor(ctx, Sender)
	return err
}

func refusesAnotherKey(ctx context.Context, s *stage) error {
	sender, other, err := s.impostor(ctx)
	if err != nil {
		return err
	}
	challenge, err := s.challenge(ctx, other.handle)
	if err != nil {
		return err
	}
	got, err := s.answerChallenge(ctx, other, challenge, sender.key)
	if err != nil {
		return err
	}
	return got.refuses()
}

func refusesASpentChallenge(ctx context.Context, s *stage) error {
	a, err := s.newcomer("once")
	if err != nil {
		return err
	}
	challenge, err := s.challenge(ctx, a.handle)
	if err != nil {
		return err
	}
	for _, want := range []func(answer) error{answer.succeeds, answer.refuses} {
		got, err := s.answerChallenge(ctx, a, challenge, a.key)
		if err == nil {
			err = want(got)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func keepsAHandle(ctx context.Context, s *stage) error {
	sender, other, err := s.impostor(ctx)
	if err != nil {
		return err
	}
	other.handle = sender.handle
	got, err := s.ask(ctx, "", http.MethodPost, "/register/challenge", map[string]any{"handle": other.handle})
	if err != nil {
		return err
	}
	if got.text("challenge") != "" {
		if got, err = s.answerChallenge(ctx, other, got.text("challenge"), other.key); err != nil {
			return err
		}
	}
	return got.refuses()
}

func refreshes(ctx context.Context, s *stage) error {
	sender, err := s.actor(ctx, Sender)
	if err != nil {
		return err
	}
	got, err := s.succeed(ctx, sender.refresh, http.MethodPost, "/auth/refresh", nil)
	if err != nil {
		return err
	}
	if got.text("accessToken") == "" {
		return fmt.Errorf("no accessToken in %v", got.body)
	}
	sender.access = got.text("accessToken")
	if _, _, err := s.inbox(ctx, sender, ""); err != nil {
		return fmt.Errorf("with the new token: %w", err)
	}
	return nil
}

func showsIdentities(ctx context.Context, s *stage) error {
	sender, err := s.actor(ctx, Sender)
	if err != nil {
		return err
	}
	got, err := s.succeed(ctx, "", http.MethodGet, "/identity/"+sender.handle, nil)
	if err != nil {
		return err
	}
	if want := base64.RawURLEncoding.EncodeToString(sender.key.Public); got.text("handle") != sender.handle || got.text("publicKey") != want {
		return fmt.Errorf("handle or publicKey differs from the registered ones: %v", got.body)
	}
	return nil
}

func knowsNoStranger(ctx context.Context, s *stage) error {
	nobody, err := s.newcomer("nobody")
	if err != nil {
		return err
	}
	got, err := s.ask(ctx, "", http.MethodGet, "/identity/"+nobody.handle, nil)
	if err != nil {
		return err
	}
	if got.status != http.StatusNotFound {
		return fmt.Errorf("answered %d, want 404", got.status)
	}
	return got.refuses()
}

func guardsInboxes(ctx context.Context, s *stage) error {
	for _, token := range []string{"", "never-issued"} {
		got, err := s.ask(ctx, token, http.MethodGet, "/messages/inbox", nil)
		if err != nil {
			return err
		}
		if got.status != http.StatusUnauthorized {
			return fmt.Errorf("answered %d, want 401", got.status)
		}
	}
	return nil
}

func waitsForConsent(ctx context.Context, s *stage) error {
	from, to, err := s.pair(ctx, Sender, recipient)
	if err != nil {
		return err
	}
	const body = "before consent"
	got, err := s.send(ctx, from, from.envelope(to, body), from.key)
	if err != nil {
		return err
	}
	if err := got.succeeds(); err != nil {
		return err
	}
	if err := s.staysOut(ctx, to, body); err != nil {
		return fmt.Errorf("before consent: %w", err)
	}
	if err := s.consent(ctx, to, from, "accept"); err != nil {
		return err
	}
	return s.arrives(ctx, to, body)
}

// The second agent accepts messages of the first.
func (s *stage) befriended(ctx context.Context) (from, to *agent, err error) {
	if from, to, err = s.pair(ctx, Sender, recipient); err != nil {
		return nil, nil, err
	}
	return from, to, s.consent(ctx, to, from, "accept")
}

func deliversAsSigned(ctx context.Context, s *stage) error {
	from, to, err := s.befriended(ctx)
	if err != nil {
		return err
	}
	envelope := from.envelope(to, "as it was signed")
	envelope["payload"] = map[string]any{"type": "conform:note", "data": map[string]any{"text": "ß"}}
	got, err := s.send(ctx, from, envelope, from.key)
	if err != nil {
		return err
	}
	if err := errors.Join(got.succeeds(), s.arrives(ctx, to, "as it was signed")); err != nil {
		return err
	}
	return s.each(ctx, to, func(m map[string]any) error {
		if m["body"] == "as it was signed" && (m["id"] != envelope["id"] || m["from"] != from.handle || !reflect.DeepEqual(m["payload"], envelope["payload"])) {
			return fmt.Errorf("id, from or payload differs: %v", m)
		}
		return nil
	})
}

func (s *stage) each(ctx context.Context, a *agent, do func(message map[string]any) error) error {
	messages, _, err := s.inbox(ctx, a, "")
	for _, m := range messages {
		err = errors.Join(err, do(m))
	}
	return err
}

func readsWithoutChange(ctx context.Context, s *stage) error {
	from, to, err := s.befriended(ctx)
	if err != nil {
		return err
	}
	const body = "read twice"
	if _, err := s.send(ctx, from, from.envelope(to, body), from.key); err != nil {
		return err
	}
	if err := s.arrives(ctx, to, body); err != nil {
		return err
	}
	first, next, err := s.inbox(ctx, to, "")
	if err != nil {
		return err
	}
	second, again, err := s.inbox(ctx, to, "")
	if err != nil {
		return err
	}
	if len(first) != len(second) || next != again {
		return fmt.Errorf("the first read has %d messages and the second %d", len(first), len(second))
	}
	after, _, err := s.inbox(ctx, to, next)
	if err == nil && len(after) > 0 && len(after) >= len(first) {
		err = fmt.Errorf("%d messages after the last cursor", len(after))
	}
	return err
}

func deliversOnce(ctx context.Context, s *stage) error {
	from, to, err := s.befriended(ctx)
	if err != nil {
		return err
	}
	const body = "sent twice"
	envelope := from.envelope(to, body)
	for range 2 { // the second answer may be a refusal
		if _, err := s.send(ctx, from, envelope, from.key); err != nil {
			return err
		}
	}
	if err := s.arrives(ctx, to, body); err != nil {
		return err
	}
	return s.arrives(ctx, to, body)
}

func refusesChanged(ctx context.Context, s *stage, before, after func(message map[string]any), signer string) error {
	from, to, err := s.befriended(ctx)
	if err != nil {
		return err
	}
	key := from
	if signer != Sender {
		if key, err = s.actor(ctx, signer); err != nil {
			return err
		}
	}
	envelope := from.envelope(to, "spoiled")
	before(envelope)
	message, err := signed(ctx, envelope, key.key)
	if err != nil {
		return err
	}
	after(message)
	got, err := s.ask(ctx, from.access, http.MethodPost, "/messages", message)
	if err != nil {
		return err
	}
	return got.refuses()
}

func unchanged(map[string]any) {}

func refusesAForgery(ctx context.Context, s *stage) error {
	return refusesChanged(ctx, s, unchanged, unchanged, stranger)
}

func refusesAChange(ctx context.Context, s *stage) error {
	return refusesChanged(ctx, s, unchanged, func(m map[string]any) { m["body"] = "changed" }, Sender)
}

func refusesAnotherAudience(ctx context.Context, s *stage) error {
	return refusesChanged(ctx, s, func(m map[string]any) { m["aud"] = "another.example" }, unchanged, Sender)
}

func refusesAnOldMessage(ctx context.Context, s *stage) error {
	return refusesChanged(ctx, s, func(m map[string]any) { m["timestamp"] = time.Now().Add(-time.Hour).Unix() }, unchanged, Sender)
}

func keepsABlockedSenderOut(ctx context.Context, s *stage) error {
	from, to, err := s.pair(ctx, stranger, recipient)
	if err != nil {
		return err
	}
	if err := s.consent(ctx, to, from, "block"); err != nil {
		return err
	}
	const body = "from a blocked sender"
	if _, err := s.send(ctx, from, from.envelope(to, body), from.key); err != nil { // the response may hide the block
		return err
	}
	return s.staysOut(ctx, to, body)
}
