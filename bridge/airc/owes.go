package airc

import (
	"context"
	"fmt"
	"slices"

	"baton/bridge"
	"baton/federation"
)

// peerLabel returns the label of a registry in metrics.
func (l *Link) peerLabel(domain string) string {
	if slices.ContainsFunc(l.cfg.Peers, func(p PeerConfig) bool { return p.Domain == domain }) {
		return domain
	}
	return bridge.OtherPeers
}

// Backlogs implements [bridge.Peered].
func (l *Link) Backlogs(ctx context.Context) ([]federation.PeerBacklog, error) {
	kept, err := l.deps.Record.PeerBacklogs(ctx)
	if err != nil {
		return nil, fmt.Errorf("read queues of registries: %w", err)
	}
	var all []federation.PeerBacklog
	for _, p := range l.cfg.Peers {
		all = append(all, federation.PeerBacklog{Peer: p.Domain})
	}
	for _, b := range kept {
		b.Peer = l.peerLabel(b.Peer)
		i := slices.IndexFunc(all, func(sum federation.PeerBacklog) bool { return sum.Peer == b.Peer })
		if i < 0 {
			all = append(all, b)
			continue
		}
		sum := &all[i]
		if sum.Rows == 0 || b.Rows > 0 && b.Oldest.Before(sum.Oldest) {
			sum.Oldest = b.Oldest
		}
		sum.Rows, sum.Dead = sum.Rows+b.Rows, sum.Dead+b.Dead
	}
	return all, nil
}
