package operatorapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"baton/federation"
)

// Block is a source that an operator blocked.
type Block struct {
	What    string               `json:"what"`
	Kind    federation.BlockKind `json:"kind"`
	Reason  string               `json:"reason"`
	Since   Moment               `json:"since"`
	Expires Moment               `json:"expires"` // "" where it holds until it is removed
}

// BlockAsk asks for a block.
type BlockAsk struct {
	Act

	What  string `json:"what"`          // see [federation.ParseBlock]
	For   string `json:"for,omitempty"` // a duration; "" until it is removed
	Purge bool   `json:"purge,omitempty"`
}

// Purged counts what a purge ended and dropped, or would.
type Purged struct {
	federation.Purged

	Handoffs int `json:"handoffs"` // that the source had offered
}

// Blocked is a block that was made just now, or would be.
type Blocked struct {
	Block

	Purged *Purged `json:"purged,omitempty"` // nil where nothing was to be purged
	DryRun bool    `json:"dry_run,omitempty"`
}

// blocks is GET blocks, by what they name. Those that are over are left out.
func (o *Operator) blocks(r *http.Request) (listing, error) {
	page := func(ctx context.Context, cursor string, limit int) (any, error) {
		found, err := o.deps.Blocks.BlocksAfter(ctx, cursor, limit)
		p, now := Page[Block]{Items: []Block{}}, time.Now()
		for _, b := range found {
			if b.Good(now) {
				p.Items = append(p.Items, shapeBlock(b))
			}
		}
		if len(found) == limit {
			p.NextCursor = found[limit-1].What
		}
		return p, err
	}
	return listing{page: page}, known(r.URL.Query())
}

func shapeBlock(b federation.Block) Block {
	return Block{What: b.What, Kind: b.Kind, Reason: b.Reason, Since: Moment(b.Since), Expires: Moment(b.Expires)}
}

// postBlock answers POST blocks. A block of what is blocked takes the place of that.
func (o *Operator) postBlock(r *http.Request) (answer, error) {
	var ask BlockAsk
	if err := readBody(r, &ask); err != nil {
		return answer{}, err
	}
	b, err := ask.block(time.Now())
	if err != nil {
		return answer{}, err
	}
	b, purged, err := o.deps.Blocks.Block(r.Context(), b, ask.Purge, ask.DryRun)
	if err != nil {
		return answer{}, err
	}
	done := Blocked{Block: shapeBlock(b), DryRun: ask.DryRun}
	what := "block add"
	if ask.Purge {
		done.Purged, what = &purged, "block add, purge"
	}
	if ask.DryRun {
		return answer{body: done}, nil
	}
	o.act(r, what, b.What, ask.Reason)
	return answer{status: http.StatusCreated, body: done}, nil
}

func (ask BlockAsk) block(now time.Time) (federation.Block, error) {
	b, err := federation.ParseBlock(ask.What)
	if err != nil {
		return b, usage("what: " + err.Error())
	}
	b.Since, b.Reason = now, ask.Reason
	if ask.For != "" {
		life, err := time.ParseDuration(ask.For)
		if err != nil || life <= 0 {
			return b, usage(fmt.Sprintf("for: want a duration such as 24h, not %q", ask.For))
		}
		b.Expires = now.Add(life)
	}
	return b, nil
}

// deleteBlock answers DELETE blocks/{what}, with reason and dry_run as parameters.
func (o *Operator) deleteBlock(r *http.Request) (answer, error) {
	query := r.URL.Query()
	if err := known(query, "reason", "dry_run"); err != nil {
		return answer{}, err
	}
	b, err := federation.ParseBlock(r.PathValue("what"))
	if err != nil {
		return answer{}, usage("what: " + err.Error())
	}
	ask := Act{Reason: query.Get("reason"), DryRun: query.Get("dry_run") == "true"}
	err = o.deps.Blocks.Unblock(r.Context(), b, ask.DryRun)
	if isNotFound(err) {
		return answer{}, errNone("block of " + b.What)
	}
	if err != nil {
		return answer{}, err
	}
	return o.acted(r, "block remove", b.What, ask, 1), nil
}
