package operatorapi

import (
	"context"
	"fmt"
	"time"

	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// ListBlocks implements [contract.StrictServerInterface].
func (o *Operator) ListBlocks(ctx context.Context, req contract.ListBlocksRequestObject) (contract.ListBlocksResponseObject, error) {
	p := req.Params
	return o.list(ctx, o.blocks(), nil, p.Limit, p.Cursor, nil)
}

// blocks returns the list of blocks that have not expired, by what they name.
func (o *Operator) blocks() listing {
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
	return listing{page: page}
}

func shapeBlock(b federation.Block) Block {
	return Block{What: b.What, Kind: b.Kind, Reason: b.Reason, Since: Moment(b.Since), Expires: Moment(b.Expires)}
}

// Block implements [contract.StrictServerInterface]. It replaces a block of
// the same source.
func (o *Operator) Block(ctx context.Context, req contract.BlockRequestObject) (contract.BlockResponseObject, error) {
	if err := bodyOf(ctx); err != nil {
		return nil, err
	}
	ask := *req.Body
	b, err := blockOf(ask, time.Now())
	if err != nil {
		return nil, err
	}
	b, purged, err := o.deps.Blocker.Block(ctx, b, ask.Purge, ask.DryRun)
	if err != nil {
		return nil, err
	}
	done := Blocked{Block: shapeBlock(b), DryRun: ask.DryRun}
	what := "block add"
	if ask.Purge {
		done.Purged, what = new(Purged(purged)), "block add, purge"
	}
	if ask.DryRun {
		return contract.Block200JSONResponse(done), nil
	}
	o.act(ctx, what, b.What, ask.Reason)
	return contract.Block201JSONResponse(done), nil
}

func blockOf(ask BlockAsk, now time.Time) (federation.Block, error) {
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

// Unblock implements [contract.StrictServerInterface].
func (o *Operator) Unblock(ctx context.Context, req contract.UnblockRequestObject) (contract.UnblockResponseObject, error) {
	b, err := federation.ParseBlock(req.What)
	if err != nil {
		return nil, usage("what: " + err.Error())
	}
	ask := Act{Reason: req.Params.Reason, DryRun: req.Params.DryRun != nil && *req.Params.DryRun == "true"}
	err = o.deps.Blocker.Unblock(ctx, b, ask.DryRun)
	if isNotFound(err) {
		return nil, errNone("block of " + b.What)
	}
	if err != nil {
		return nil, err
	}
	return contract.Unblock200JSONResponse(o.acted(ctx, "block remove", b.What, ask, 1)), nil
}
