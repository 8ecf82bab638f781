package identity

import (
	"context"
	"errors"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/singleflight"

	"baton/federation"
)

// awayFor is how long a host that could not be asked is not asked again for the
// same DID. Each time, a step may wait for as long as a fetch may take.
const awayFor = 5 * time.Second

// maxDocuments bounds the cache. A document, reduced to its keys, is some 200 bytes,
// and 6 KiB at most.
const maxDocuments = 4096

// lookup finds out about a DID, at a host that may be down, slow or hostile.
type lookup func(ctx context.Context, did federation.DID) (federation.Document, error)

// answers remembers what became of look-ups. For each DID one look-up is under way
// at a time, for all who wait for it.
type answers struct {
	cfg     DirectoryConfig
	look    lookup
	known   *otter.Cache[federation.DID, answer]
	flights singleflight.Group
}

// answer is a document, or why there is none. It serves until a time, and then the
// host is asked again.
type answer struct {
	document federation.Document
	err      error
	asked    time.Time
	until    time.Time
}

func newAnswers(cfg DirectoryConfig, look lookup) *answers {
	return &answers{cfg: cfg, look: look, known: otter.Must(&otter.Options[federation.DID, answer]{
		MaximumSize: maxDocuments,
		Executor:    func(tidy func()) { tidy() }, // by whoever asks: nothing here outlives its caller
	})}
}

// get returns what is known of a DID or, where that is older than anybody should
// rely on, what its host says now.
func (a *answers) get(ctx context.Context, did federation.DID, now time.Time) (federation.Document, error) {
	if known, ok := a.known.GetIfPresent(did); ok && now.Before(known.until) {
		return known.document, known.err
	}
	return a.ask(ctx, did, now)
}

// refresh asks the host again, unless it was asked just now.
func (a *answers) refresh(ctx context.Context, did federation.DID, now time.Time) (federation.Document, error) {
	if known, ok := a.known.GetIfPresent(did); ok && now.Before(known.asked.Add(awayFor)) {
		return known.document, known.err
	}
	return a.ask(ctx, did, now)
}

// ask joins the look-up that is under way, or begins one. A caller that goes does
// not end it for the others; the timeout of the fetch does.
func (a *answers) ask(ctx context.Context, did federation.DID, now time.Time) (federation.Document, error) {
	flight := a.flights.DoChan(string(did), func() (any, error) {
		found := a.judge(context.WithoutCancel(ctx), did, now)
		a.known.Set(did, found)
		return found, nil
	})
	select {
	case result := <-flight:
		found, _ := result.Val.(answer) // always is one
		return found.document, found.err
	case <-ctx.Done():
		return federation.Document{}, unavailable(string(did), 0, ctx.Err())
	}
}

// judge asks a host once and says for how long its answer serves. While it is away,
// an old document does.
func (a *answers) judge(ctx context.Context, did federation.DID, now time.Time) answer {
	document, err := a.look(ctx, did)
	if err == nil {
		document.Fetched = now
		return answer{document: document, asked: now, until: now.Add(a.cfg.Fresh)}
	}
	if _, away := errors.AsType[*federation.UnavailableError](err); !away {
		return answer{err: err, asked: now, until: now.Add(a.cfg.Negative)}
	}
	old, ok := a.known.GetIfPresent(did)
	if ok && old.err == nil && now.Before(old.document.Fetched.Add(a.cfg.Stale)) {
		return answer{document: old.document, asked: now, until: now.Add(awayFor)}
	}
	return answer{err: err, asked: now, until: now.Add(awayFor)}
}
