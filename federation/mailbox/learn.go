package mailbox

import (
	"context"
	"log/slog"
	"time"

	"baton/federation"
)

// LearnFromStep notes that a home sent a step: the mailbox of the signer is there, unless another
// location is known. A signed step also overrules an earlier login here, and the claim of another home
// to have the mailbox, which is an offence of that home. The log has a location that cannot be
// kept; the next step teaches it again.
func (l *Locator) LearnFromStep(ctx context.Context, ev federation.Event, home federation.HomeID, now time.Time) {
	did := ev.Actor()
	defer l.routed(ctx, did)
	kept, err := l.record.MailboxLocation(ctx, did)
	weak := kept.Source == federation.LocatedByAnswer || kept.Source == federation.LocatedByLogin
	if err != nil || !weak || kept.Home == home || ev.Provenance != federation.Signed {
		l.learn(ctx, did, home, federation.LocatedByStep, now)
		return
	}
	if _, ok := l.peers.Peer(kept.Home); ok {
		l.peers.ReportOffence(ctx, kept.Home, federation.OffenceMailbox, "of "+string(did)+", whose steps come from "+string(home))
	}
	l.keep(ctx, federation.MailboxLocation{DID: did, Home: home, Source: federation.LocatedByStep, Since: now})
}

// LearnFromLogin notes that a DID logged in here: its mailbox is here if no location is known, if its
// route is lost, or if another home only claims it. The log has a location that cannot be kept; the
// next login teaches it again.
func (l *Locator) LearnFromLogin(ctx context.Context, did federation.DID, now time.Time) {
	at, err := l.Locate(ctx, did)
	switch {
	case err != nil:
		l.notKept(ctx, did, err)
	case at.Source == federation.LocatedByMove:
	case at.Home == "" || at.Source == federation.LocatedByAnswer || l.lost(at.Home):
		l.keep(ctx, federation.MailboxLocation{DID: did, Home: l.home, Source: federation.LocatedByLogin, Since: now})
		l.routed(ctx, did)
	}
}

// learn keeps a location for a DID without a known one, or with one whose route is lost.
func (l *Locator) learn(ctx context.Context, did federation.DID, home federation.HomeID, source federation.LocationSource, now time.Time) {
	at, err := l.Locate(ctx, did)
	if err != nil {
		l.notKept(ctx, did, err)
		return
	}
	if at.Home == "" || at.Source != federation.LocatedByMove && l.lost(at.Home) {
		l.keep(ctx, federation.MailboxLocation{DID: did, Home: home, Source: source, Since: now})
	}
}

func (l *Locator) keep(ctx context.Context, at federation.MailboxLocation) {
	if err := l.record.KeepMailboxLocation(ctx, at); err != nil {
		l.notKept(ctx, at.DID, err)
	}
}

func (l *Locator) notKept(ctx context.Context, did federation.DID, err error) {
	l.log.LogAttrs(ctx, slog.LevelWarn, "home of a DID not kept", slog.String("did", string(did)), slog.Any("err", err))
}
