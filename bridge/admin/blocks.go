package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
)

func (o *Operator) blocks(context.Context, Paging) (listing[Block], error) {
	page := func(ctx context.Context, cursor string, limit int) (Page[Block], error) {
		found, err := o.deps.Record.BlocksAfter(ctx, cursor, limit)
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
	return listing[Block]{page: page}, nil
}

func shapeBlock(b federation.Block) Block {
	return Block{What: b.What, Kind: b.Kind, Reason: b.Reason, Since: Moment(b.Since), Expires: Moment(b.Expires)}
}

// addBlock replaces an existing block of the same source.
func (o *Operator) addBlock(ctx context.Context, body route.Body[BlockAsk]) (Blocked, error) {
	ask, err := body.Read()
	if err != nil {
		return Blocked{}, err
	}
	b, err := blockOf(ask, time.Now())
	if err != nil {
		return Blocked{}, err
	}
	b, purged, err := o.deps.Gateway.Block(ctx, b, ask.Purge, ask.DryRun)
	if err != nil {
		return Blocked{}, err
	}
	done := Blocked{Block: shapeBlock(b), DryRun: ask.DryRun}
	what := "block add"
	if ask.Purge {
		done.Purged, what = new(Purged(purged)), "block add, purge"
	}
	if !ask.DryRun {
		o.act(ctx, what, b.What, ask.Reason)
	}
	return done, nil
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

func (o *Operator) unblock(ctx context.Context, in Unblocking) (Acted, error) {
	b, err := federation.ParseBlock(in.What)
	if err != nil {
		return Acted{}, usage("what: " + err.Error())
	}
	ask := in.Act()
	err = o.deps.Gateway.Unblock(ctx, b, ask.DryRun)
	if isNotFound(err) {
		return Acted{}, errNone("block of " + b.What)
	}
	if err != nil {
		return Acted{}, err
	}
	return o.acted(ctx, "block remove", b.What, ask, 1), nil
}

// How senders are counted.
const (
	senderDID     = "did"
	senderAddress = "address"
	senderLink    = "link"
)

// Periods of the sender counts.
const (
	topSince    = 10 * time.Minute
	maxTopSince = time.Hour
)

func (o *Operator) top(_ context.Context, query TopQuery) (listing[Sender], error) {
	by, since := senderDID, topSince
	if query.By != "" {
		by = query.By
	}
	if !slices.Contains([]string{senderDID, senderAddress, senderLink}, by) {
		return listing[Sender]{}, usage("by: want did, address or link, not " + strconv.Quote(by))
	}
	if query.Since != "" {
		var err error
		if since, err = time.ParseDuration(query.Since); err != nil || since < time.Minute || since > maxTopSince {
			return listing[Sender]{}, usage("since: want a duration from 1m to 1h")
		}
	}
	page := func(_ context.Context, _ string, limit int) (Page[Sender], error) {
		senders := []Sender{}
		for _, s := range o.deps.Gateway.TopSenders(by, since, limit, time.Now()) {
			senders = append(senders, Sender(s))
		}
		return Page[Sender]{Items: senders}, nil
	}
	return listing[Sender]{page, watchPage(page)}, nil
}

// erase continues if the client disconnects, so that each erasure is in the audit log.
func (o *Operator) erase(ctx context.Context, body route.Body[EraseAsk]) (Erased, error) {
	ask, err := body.Read()
	if err != nil {
		return Erased{}, err
	}
	did, err := federation.ParseDID(ask.DID)
	if err != nil {
		return Erased{}, usage("did: " + err.Error())
	}
	ctx = context.WithoutCancel(ctx)
	done := Erased{DID: did, DryRun: ask.DryRun}
	done.Erasing, err = o.deps.Server.Erase(ctx, did, ask.DryRun)
	if _, refused := errors.AsType[*ProblemError](err); !ask.DryRun && !refused {
		what := "erase"
		if err != nil {
			what = "erase, cut short"
		}
		o.act(ctx, what, string(did), ask.Reason)
	}
	if err == nil {
		done.Files, err = o.deps.Server.RecordCopies()
	}
	if err != nil {
		return Erased{}, err
	}
	return done, nil
}
