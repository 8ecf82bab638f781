package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"baton/bridge/operatorapi"
	"baton/federation"
	"baton/federation/passport"
)

// passport returns the passport of a handoff as it stood when the view was read. Of a
// handoff of another home nobody would believe it.
func (p *program) passport(ctx context.Context, view federation.View, now time.Time) (operatorapi.Document, error) {
	if view.Guest {
		return operatorapi.Document{}, &operatorapi.ProblemError{
			Status: http.StatusConflict, Code: operatorapi.CodeFailed, Detail: "its home is " + string(view.Home) + ", which alone issues its passport",
		}
	}
	contents := passport.Contents{
		View:     view,
		Evidence: func(digest [32]byte) ([]byte, error) { return p.record.Evidence(ctx, digest) },
	}
	var err error
	if contents.Log, err = p.stepsOf(ctx, view); err != nil {
		return operatorapi.Document{}, err
	}
	if contents.Receipts, err = p.receiptsOf(ctx, view, contents.Log); err != nil {
		return operatorapi.Document{}, err
	}
	histories, err := p.histories(ctx, contents.Log)
	if err != nil {
		return operatorapi.Document{}, err
	}
	contents.Source = func(did federation.DID, keyID string) string { return histories[did].Source(keyID) }
	text, err := passport.Write(ctx, p.serverKey(), contents, now)
	if err == nil && len(text) > passport.MaxBytes {
		err = errLongPassport()
	}
	return operatorapi.Document{MediaType: passport.MediaType, Content: text}, err
}

// errLongPassport is the problem of a handoff whose passport nobody would read.
func errLongPassport() error {
	return &operatorapi.ProblemError{
		Status: http.StatusUnprocessableEntity, Code: operatorapi.CodeFailed,
		Detail: fmt.Sprintf("its passport has more than %d bytes", passport.MaxBytes),
	}
}

// stepsOf returns the steps that a view counts.
func (p *program) stepsOf(ctx context.Context, view federation.View) ([]federation.Entry, error) {
	var steps []federation.Entry
	size := 0
	for entry, err := range p.record.Log(ctx, view.ID) {
		if err != nil {
			return nil, err
		}
		if entry.Version > view.Version {
			break // filed since
		}
		if size += len(entry.Event.Signature.Document); size > passport.MaxBytes {
			return nil, errLongPassport()
		}
		steps = append(steps, entry)
	}
	return steps, nil
}

// receiptsOf returns the receipts of these steps.
func (p *program) receiptsOf(ctx context.Context, view federation.View, steps []federation.Entry) ([]federation.Event, error) {
	all, err := p.record.Receipts(ctx, view.ID)
	if err != nil {
		return nil, err
	}
	filed := map[federation.EventID]bool{}
	for _, entry := range steps {
		filed[entry.Event.ID] = true
	}
	var receipts []federation.Event
	for _, receipt := range all {
		if filed[receipt.Subject] {
			receipts = append(receipts, receipt)
		}
	}
	return receipts, nil
}

// histories returns what is known of the keys of all who signed.
func (p *program) histories(ctx context.Context, steps []federation.Entry) (map[federation.DID]federation.KeyHistory, error) {
	histories := map[federation.DID]federation.KeyHistory{}
	for _, entry := range steps {
		did := entry.Event.From
		if _, read := histories[did]; read {
			continue
		}
		history, err := p.record.History(ctx, did)
		if err != nil {
			return nil, err
		}
		histories[did] = history
	}
	return histories, nil
}
