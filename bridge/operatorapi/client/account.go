package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"

	"baton/bridge"
	"baton/bridge/operatorapi/contract"
	"baton/bridge/participant"
	"baton/federation"
)

// maxProofs bounds the steps that an account remembers by their keys, a few kilobytes each. The
// oldest are forgotten first.
const maxProofs = 1024

// Account is a participant at a gateway that an operator acts for. Where it has a key, it signs
// each step in this process. It may be used concurrently.
type Account struct {
	participant.Remote

	client *Client
	key    *federation.SigningKey // nil where the gateway signs

	mu     sync.Mutex
	proofs map[string]proved
	order  []string // the keys of proofs, the oldest first
}

// proved is a step that was signed for a request with an idempotency key.
type proved struct {
	digest [sha256.Size]byte
	proof  contract.Proof
}

// Account returns the account of a DID. A key that is not nil is that of the DID.
func (c *Client) Account(did federation.DID, key *federation.SigningKey) *Account {
	post := func(ctx context.Context, operation string, arguments []byte) ([]byte, error) {
		address, err := federation.JoinURL(c.base, contract.Prefix+federation.URLPath("participants").Join(string(did), operation), nil)
		if err != nil {
			return nil, err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(arguments))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", "application/json")
		response, err := c.endless.Client.Do(r) // some calls wait
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
		if err != nil {
			return nil, &federation.UnavailableError{What: "gateway", Err: err}
		}
		return text, nil
	}
	return &Account{Remote: participant.Remote{Post: post}, client: c, key: key, proofs: map[string]proved{}}
}

// Offer opens a handoff, as [participant.Account.Offer] does.
func (a *Account) Offer(ctx context.Context, o participant.Offer, key string) (participant.Filed, error) {
	if a.key == nil {
		return a.Remote.Offer(ctx, o, key)
	}
	step := Step{Verb: federation.Offer, Key: a.key, Ask: contract.Ask{
		To: o.To, Channel: o.Channel, Title: o.Title, Caps: o.Caps, Deadline: contract.Moment(o.Deadline),
	}}
	if o.Replaces != "" {
		var err error
		if step.Replaces, err = federation.ParseEventID(o.Replaces); err != nil {
			return participant.Filed{}, bridge.UsageProblem("replaces: " + err.Error())
		}
	}
	proof, err := a.sign(ctx, step, o.Context, o, key)
	if err != nil {
		return participant.Filed{}, err
	}
	return a.Remote.Offer(ctx, participant.Offer{Channel: o.Channel, Document: proof.Document, Signature: proof.Signature}, "")
}

// Take takes a step in a handoff, as [participant.Account.Take] does.
func (a *Account) Take(ctx context.Context, id string, verb federation.Verb, s participant.Step, key string) (participant.Filed, error) {
	if a.key == nil {
		return a.Remote.Take(ctx, id, verb, s, key)
	}
	if _, err := a.Handoff(ctx, id); err != nil { // which says what the DID may see
		return participant.Filed{}, err
	}
	step := Step{Verb: verb, Handoff: id, Key: a.key, Ask: contract.Ask{Note: s.Note}}
	proof, err := a.sign(ctx, step, s.Context, []any{id, verb, s}, key)
	if err != nil {
		return participant.Filed{}, err
	}
	return a.Remote.Take(ctx, id, verb, participant.Step{Document: proof.Document, Signature: proof.Signature}, "")
}

// sign signs a step, once for each key: what a request asks for tells whether it is the one that
// the key was used for.
func (a *Account) sign(ctx context.Context, step Step, content json.RawMessage, asked any, key string) (contract.Proof, error) {
	if len(content) > 0 && json.Unmarshal(content, &step.Context) != nil {
		step.Content = content
	}
	text, err := json.Marshal(asked)
	if err != nil {
		return contract.Proof{}, err
	}
	digest := sha256.Sum256(text)
	a.mu.Lock()
	defer a.mu.Unlock()
	kept, known := a.proofs[key]
	switch {
	case key != "" && known && kept.digest != digest:
		return contract.Proof{}, &bridge.ProblemError{Status: http.StatusConflict, Code: participant.CodeOtherRequest, Detail: "this key was used for another request"}
	case key != "" && known:
		return kept.proof, nil
	}
	proof, err := a.client.Sign(ctx, step)
	if err == nil && key != "" {
		a.keep(key, proved{digest, proof})
	}
	return proof, told(err)
}

// keep remembers a step by its key.
func (a *Account) keep(key string, p proved) {
	if len(a.order) == maxProofs {
		delete(a.proofs, a.order[0])
		a.order = a.order[1:]
	}
	a.proofs[key], a.order = p, append(a.order, key)
}

// told returns an error of signing as a caller is told it: a member that does not fit is a mistake
// of the request.
func told(err error) error {
	problem, isProblem := errors.AsType[*bridge.ProblemError](err)
	away, isAway := errors.AsType[*federation.UnavailableError](err)
	switch {
	case err == nil:
		return nil
	case isProblem:
		return problem
	case isAway:
		return away
	}
	return bridge.UsageProblem(err.Error())
}
