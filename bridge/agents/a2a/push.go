package a2a

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"
	"golang.org/x/net/http/httpguts"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/federation"
)

var _ bridge.Poster = (*Link)(nil)

// In bytes. Each configuration is stored on disk.
const (
	maxConfigID   = 128
	maxPushSecret = 4096
)

type pushSecrets struct {
	Token string             `json:"token,omitempty"`
	Auth  *wire.PushAuthInfo `json:"authentication,omitempty"`
}

type pushConfigs struct {
	Configs []*wire.PushConfig `json:"configs"`
}

// checkPush blocks on the network.
func (l *Link) checkPush(ctx context.Context, c wire.PushConfig) error {
	switch {
	case l.deps.Hooks == nil:
		return fault(codeNoPush, "the gateway has no webhooks")
	case c.URL == "":
		return badParams("url is required")
	case len(c.ID) > maxConfigID:
		return badParams(fmt.Sprintf("id: want at most %d bytes", maxConfigID))
	case len(c.Token) > maxPushSecret || !httpguts.ValidHeaderFieldValue(c.Token):
		return badParams(fmt.Sprintf("token: want the value of a header, of at most %d bytes", maxPushSecret))
	}
	if a := c.Auth; a != nil && (!httpguts.ValidHeaderFieldName(a.Scheme) || len(a.Scheme)+len(a.Credentials) > maxPushSecret || !httpguts.ValidHeaderFieldValue(a.Credentials)) {
		return badParams(fmt.Sprintf("authentication: want a scheme and credentials for the header Authorization, of at most %d bytes", maxPushSecret))
	}
	return pushError(l.deps.Hooks.Check(ctx, c.URL))
}

func pushError(err error) error {
	switch {
	case errors.Is(err, bridge.ErrAddress):
		return badParams("url: " + err.Error())
	case errors.Is(err, federation.ErrTooManyWebhooks):
		return &federation.RefusalError{Code: federation.QuotaExceeded, Detail: "the task has the maximum number of push configurations; delete one"}
	}
	return err
}

// keepPush replaces a configuration with the same ID.
func (l *Link) keepPush(ctx context.Context, by participant.Caller, v federation.View, c wire.PushConfig) (*wire.PushConfig, error) {
	sealed, err := l.seal.seal(pushSecrets{c.Token, c.Auth})
	if err != nil {
		return nil, err
	}
	followers, err := l.deps.Record.Followers(ctx, by.DID, v.ID)
	if err != nil {
		return nil, err
	}
	for _, h := range followers {
		if named(h, c.ID) || c.ID == "" && h.Label == "" && h.URL == c.URL { // the same configuration again
			if err := l.remove(ctx, h.ID); err != nil {
				return nil, err
			}
		}
	}
	made := federation.Webhook{DID: by.DID, Handoff: v.ID, Label: c.ID, Sealed: sealed, URL: c.URL}.In(by.Session)
	h, err := l.deps.Hooks.Follow(ctx, made, time.Now())
	if err != nil {
		return nil, pushError(err)
	}
	return l.configOf(h)
}

func (l *Link) remove(ctx context.Context, id federation.WebhookID) error {
	if err := l.deps.Record.RemoveWebhook(ctx, id); err != nil && !errors.Is(err, federation.ErrNotFound) {
		return err
	}
	return nil
}

// named falls back to the webhook's ID if the client set none.
func named(h federation.Webhook, id string) bool {
	if h.Label != "" {
		return h.Label == id
	}
	return h.ID.String() == id
}

func (l *Link) configOf(h federation.Webhook) (*wire.PushConfig, error) {
	secrets, err := l.seal.open(h.Sealed)
	if err != nil {
		return nil, err
	}
	c := &wire.PushConfig{TaskID: wire.TaskID(h.Handoff.String()), ID: h.Label, URL: h.URL, Token: secrets.Token, Auth: secrets.Auth}
	if c.ID == "" {
		c.ID = h.ID.String()
	}
	return c, nil
}

func (l *Link) createPush(ctx context.Context, req request) (any, error) {
	c, err := params[wire.PushConfig](req)
	if err != nil {
		return nil, err
	}
	view, err := l.find(ctx, req, c.TaskID)
	if err == nil {
		err = l.checkPush(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	return l.keepPush(ctx, req.caller, view, c)
}

// follower returns nil for none. The task must belong to the caller.
func (l *Link) follower(ctx context.Context, req request, id wire.TaskID, config string) (*federation.Webhook, error) {
	found, err := l.followers(ctx, req, id)
	if i := slices.IndexFunc(found, func(h federation.Webhook) bool { return named(h, config) }); i >= 0 {
		return &found[i], nil
	}
	return nil, err
}

func (l *Link) followers(ctx context.Context, req request, id wire.TaskID) ([]federation.Webhook, error) {
	view, err := l.find(ctx, req, id)
	if err == nil && l.deps.Hooks == nil {
		err = fault(codeNoPush, "the gateway has no webhooks")
	}
	if err != nil {
		return nil, err
	}
	return l.deps.Record.Followers(ctx, req.caller.DID, view.ID)
}

func (l *Link) getPush(ctx context.Context, req request) (any, error) {
	p, err := params[wire.GetTaskPushConfigRequest](req)
	if err != nil {
		return nil, err
	}
	h, err := l.follower(ctx, req, p.TaskID, p.ID)
	if err != nil {
		return nil, err
	}
	if h == nil {
		return nil, fault(codeTaskNotFound, "the task has no such push configuration")
	}
	return l.configOf(*h)
}

// listPushes returns one page: a task has few configurations.
func (l *Link) listPushes(ctx context.Context, req request) (any, error) {
	p, err := params[wire.ListTaskPushConfigRequest](req)
	if err != nil {
		return nil, err
	}
	if p.PageToken != "" {
		return nil, badParams("pageToken: the list has only one page")
	}
	found, err := l.followers(ctx, req, p.TaskID)
	if err != nil {
		return nil, err
	}
	list := pushConfigs{Configs: make([]*wire.PushConfig, len(found))}
	for i, h := range found {
		if list.Configs[i], err = l.configOf(h); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// deletePush succeeds even if the configuration was already removed.
//
// spec: a2a-1.0 §3.1.10
func (l *Link) deletePush(ctx context.Context, req request) (any, error) {
	p, err := params[wire.DeleteTaskPushConfigRequest](req)
	if err != nil {
		return nil, err
	}
	h, err := l.follower(ctx, req, p.TaskID, p.ID)
	if err != nil || h == nil {
		return nil, err
	}
	return nil, l.remove(ctx, h.ID)
}

// Pushes implements [bridge.Pusher].
func (*Link) Pushes(h federation.Webhook) bool { return !h.Handoff.IsZero() }

// Write implements [bridge.Pusher] and is never called: the link is a [bridge.Poster].
func (*Link) Write(context.Context, federation.Webhook, federation.Push) (kind string, data []byte, err error) {
	return "", nil, errors.ErrUnsupported
}

// Taken implements [bridge.Pusher] and does nothing: the record stores the end of a push.
func (*Link) Taken(context.Context, federation.Webhook, federation.Push) error { return nil }

// Posts implements [bridge.Poster]. It returns the stream events of a step.
//
// spec: a2a-1.0 §4.3.3
func (l *Link) Posts(ctx context.Context, h federation.Webhook, p federation.Push) ([]bridge.Post, error) {
	view, err := l.deps.Gateway.View(ctx, h.Handoff)
	if err != nil {
		return nil, fmt.Errorf("read handoff %s: %w", h.Handoff, err)
	}
	f, err := l.fold(ctx, view)
	if err != nil {
		return nil, err
	}
	header, err := l.pushHeader(h)
	if err != nil {
		return nil, err
	}
	var posts []bridge.Post
	err = l.read(ctx, f, func(u update) error {
		if f.last.Version != p.Entry.Version {
			return nil
		}
		body, err := json.Marshal(u)
		posts = append(posts, bridge.Post{Header: header, Body: body})
		return err
	})
	return posts, err
}

func (l *Link) pushHeader(of federation.Webhook) (http.Header, error) {
	secrets, err := l.seal.open(of.Sealed)
	if err != nil {
		return nil, err
	}
	h := http.Header{"Content-Type": {"application/a2a+json"}, "User-Agent": {"Baton"}}
	if secrets.Token != "" {
		h.Set("X-A2A-Notification-Token", secrets.Token)
	}
	if a := secrets.Auth; a != nil {
		h.Set("Authorization", strings.TrimSpace(a.Scheme+" "+a.Credentials))
	}
	return h, nil
}

const sealKeyBytes = 32

// sealer encrypts the secrets of push configurations in the record and its copies.
type sealer struct{ aead cipher.AEAD }

func newSealer(key []byte) (sealer, error) {
	own, err := hkdf.Key(sha256.New, key, nil, "baton a2a push", sealKeyBytes)
	if err != nil {
		return sealer{}, fmt.Errorf("make key of push configurations: %w", err)
	}
	block, err := aes.NewCipher(own)
	if err != nil {
		return sealer{}, fmt.Errorf("make key of push configurations: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return sealer{aead}, err
}

func (s sealer) seal(secrets pushSecrets) ([]byte, error) {
	text, err := json.Marshal(secrets)
	if err != nil {
		return nil, fmt.Errorf("seal push configuration: %w", err)
	}
	return s.aead.Seal(nil, nil, text, nil), nil //nolint:gosec // G407: the AEAD makes each nonce itself
}

func (s sealer) open(sealed []byte) (secrets pushSecrets, err error) {
	text, err := s.aead.Open(nil, nil, sealed, nil)
	if err == nil {
		err = federation.DecodeJSON(text, &secrets)
	}
	if err != nil { // the gateway's secret key has changed
		return secrets, fmt.Errorf("%w: open push configuration: %w", bridge.ErrBroken, err)
	}
	return secrets, nil
}
