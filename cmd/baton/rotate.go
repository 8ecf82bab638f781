package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"baton/federation/identity"
)

// maxRotationBytes bounds the body of a request to rotate a key.
const maxRotationBytes = 4096

// defaultOverlap is how long an old key is good where nobody says otherwise.
const defaultOverlap = 24 * time.Hour

// mountRotation registers POST /operator/v1/keys/{name}/rotate, with a body of
// {"overlap":"24h","reason":"..."}. It answers the new key as "keys show --json" prints
// it, and errors as problem documents. Whoever mounts it decides who may ask.
//
// spec: cli "Operator API"; RFC 9457 §3
func (p *program) mountRotation(mux *http.ServeMux) {
	mux.HandleFunc("POST /operator/v1/keys/{name}/rotate", func(w http.ResponseWriter, r *http.Request) {
		name, overlap, reason, err := readRotation(r)
		if err != nil {
			tellProblem(w, http.StatusBadRequest, "usage", err)
			return
		}
		now := time.Now()
		made, err := p.rotate(name, overlap, now)
		switch {
		case errors.Is(err, identity.ErrNotRotated):
			tellProblem(w, http.StatusConflict, refusedKey(err), err)
			return
		case err != nil:
			p.log.LogAttrs(r.Context(), slog.LevelError, "key not rotated", slog.String("key", string(name)), slog.Any("err", err))
			tellProblem(w, http.StatusInternalServerError, "failed", errors.New("something went wrong here; the log has it"))
			return
		}
		shown := showKey(made, p.file, now)
		p.log.LogAttrs(r.Context(), slog.LevelInfo, "key rotated", slog.String("key", string(name)), slog.String("kid", shown.KeyID),
			slog.Duration("overlap", overlap), slog.String("reason", reason))
		text, err := json.Marshal(shown)
		if err != nil {
			tellProblem(w, http.StatusInternalServerError, "failed", err)
			return
		}
		answer(w, http.StatusOK, text)
	})
}

// rotate gives the gateway another key, and tells those who sign with it or check what
// it signed. What is being signed meanwhile is signed with the old one, which is good.
func (p *program) rotate(name identity.KeyName, overlap time.Duration, now time.Time) (identity.NamedKey, error) {
	p.changing.Lock()
	defer p.changing.Unlock()
	made, err := p.keyring.Rotate(name, overlap, now)
	if err == nil {
		p.limit(p.limited)
	}
	return made, err
}

func readRotation(r *http.Request) (name identity.KeyName, overlap time.Duration, reason string, err error) {
	if name, err = identity.ParseKeyName(r.PathValue("name")); err != nil {
		return "", 0, "", err
	}
	var body struct {
		Overlap string `json:"overlap"`
		Reason  string `json:"reason"`
	}
	dec := json.NewDecoder(io.LimitReader(r.Body, maxRotationBytes))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&body); err != nil && !errors.Is(err, io.EOF) { // no body asks for the default
		return "", 0, "", fmt.Errorf("read request: %w", err)
	}
	overlap = defaultOverlap
	if body.Overlap != "" {
		if overlap, err = time.ParseDuration(body.Overlap); err != nil {
			return "", 0, "", fmt.Errorf("overlap: %w", err)
		}
	}
	return name, overlap, body.Reason, nil
}

// tellProblem answers with an error.
func tellProblem(w http.ResponseWriter, status int, code string, err error) {
	text, err := json.Marshal(map[string]any{"status": status, "title": http.StatusText(status), "code": code, "detail": oneLine(err), "retry_after": 0})
	if err != nil {
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the client is gone
}

// keysRotate asks a running gateway for another key.
type keysRotate struct {
	Name    string `arg:"" help:"server or registry."`
	Overlap string `default:"24h" help:"How long what the old key signed is good." placeholder:"DURATION"`
	Reason  string `help:"For the log." placeholder:"TEXT"`
}

// Help has one example.
func (keysRotate) Help() string { return "Example:\n\n\tbaton keys rotate server --overlap 48h" }

// Run prints what show prints of the new key.
func (cmd keysRotate) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	var key shownKey
	body := map[string]string{"overlap": cmd.Overlap, "reason": cmd.Reason}
	if err := gateway.ask(ctx, http.MethodPost, "keys/"+url.PathEscape(cmd.Name)+"/rotate", nil, body, &key); err != nil {
		return err
	}
	return printKey(c, streams, key)
}
