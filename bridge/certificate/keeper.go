// Package certificate keeps the certificate of [tls] current at run time: a [Keeper] checks for a newer
// one, and an [Authority] orders one by ACME.
package certificate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/baton-gateway/baton/bridge"
)

// checkInterval is the interval of checks for a newer certificate. Operators may expect a new
// certificate within a minute, and an error is reported only after two checks.
const checkInterval = 10 * time.Second

// A Source returns the certificate to present now, or nil if none is configured; served is the
// current certificate, or nil. After an error, the current certificate is kept.
type Source func(ctx context.Context, now time.Time, served *tls.Certificate) (*tls.Certificate, error)

// Keeper replaces the certificate that listeners and links present. It is safe for concurrent use.
type Keeper struct {
	served *bridge.Certificate
	source Source
	log    *slog.Logger

	looking sync.Mutex // one check at a time

	mu      sync.Mutex
	failed  string // error of the last check; "" for none
	problem string // error of two consecutive checks, or of a reload; "" for none
}

// NewKeeper returns a keeper for a certificate.
func NewKeeper(served *bridge.Certificate, source Source, log *slog.Logger) *Keeper {
	return &Keeper{served: served, source: source, log: log}
}

// Run checks for a newer certificate every [checkInterval] until ctx ends. It logs a problem only
// after the second check, because a certificate and its key are rarely replaced at the same
// instant.
func (k *Keeper) Run(ctx context.Context) {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		k.look(ctx, time.Now(), false)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// Look checks for a newer certificate now, and logs a problem at once. It blocks on the source.
func (k *Keeper) Look(ctx context.Context, now time.Time) { k.look(ctx, now, true) }

func (k *Keeper) look(ctx context.Context, now time.Time, certain bool) {
	k.looking.Lock()
	defer k.looking.Unlock()
	served := k.served.Current()
	next, err := k.source(ctx, now, served)
	if ctx.Err() != nil {
		return
	}
	k.logProblem(ctx, err, certain)
	if err != nil || next == nil || served != nil && slices.EqualFunc(next.Certificate, served.Certificate, bytes.Equal) {
		return
	}
	k.served.Set(next)
	sum := sha256.Sum256(next.Certificate[0])
	k.log.LogAttrs(ctx, slog.LevelInfo, "certificate replaced", slog.String("names", strings.Join(next.Leaf.DNSNames, " ")),
		slog.Time("until", next.Leaf.NotAfter), slog.String("sha256", hex.EncodeToString(sum[:])))
}

func (k *Keeper) logProblem(ctx context.Context, err error, certain bool) {
	now := ""
	if err != nil {
		now = bridge.OneLine(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	repeated := now == k.failed
	k.failed = now
	if now == k.problem || now != "" && !certain && !repeated {
		return
	}
	k.problem = now
	if now != "" {
		k.log.LogAttrs(ctx, slog.LevelError, "certificate not replaced: the current one stays", slog.String("err", now))
	}
}

// Problem returns why there is no newer certificate, or "".
func (k *Keeper) Problem() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.problem
}
