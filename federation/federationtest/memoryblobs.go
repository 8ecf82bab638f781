package federationtest

import (
	"context"
	"time"

	"baton/federation"
)

// memoryBlob is a blob with the handoffs that claim it.
type memoryBlob struct {
	federation.Blob

	claims map[federation.HandoffID]bool
}

// KeepBlob implements [federation.Blobs].
func (m *Memory) KeepBlob(ctx context.Context, b federation.Blob, of federation.HandoffID, limit int64) (federation.Blob, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.Blob{}, err
	}
	stored := int64(len(b.Content))
	for _, on := range m.blobs {
		if on.claims[of] && on.Digest == b.Digest && on.Owner == b.Owner {
			return on.Blob, nil
		}
		if on.Owner == b.Owner {
			stored += int64(len(on.Content))
		}
	}
	if limit > 0 && stored > limit {
		return federation.Blob{}, federation.ErrBlobQuota
	}
	m.blobs[b.Capability] = &memoryBlob{Blob: b, claims: map[federation.HandoffID]bool{}}
	if m.views[of].Exists() {
		m.claimBlob(of, b.Capability)
	}
	return m.blobs[b.Capability].Blob, nil
}

// claimBlob keeps a blob as long as a handoff.
func (m *Memory) claimBlob(of federation.HandoffID, capability federation.Capability) {
	if on := m.blobs[capability]; on != nil {
		on.claims[of], on.Expires = true, time.Time{}
	}
}

// unclaimBlobs lets go of the blobs of a handoff.
func (m *Memory) unclaimBlobs(of federation.HandoffID) {
	for capability, on := range m.blobs {
		if on.claims[of] && len(on.claims) == 1 {
			delete(m.blobs, capability)
		}
		delete(on.claims, of)
	}
}

// Blob implements [federation.Blobs].
func (m *Memory) Blob(ctx context.Context, capability federation.Capability, now time.Time) (federation.Blob, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.Blob{}, err
	}
	on := m.blobs[capability]
	if on == nil || !on.Expires.IsZero() && !on.Expires.After(now) {
		return federation.Blob{}, federation.ErrNotFound
	}
	return on.Blob, nil
}

// PruneBlobs implements [federation.Blobs].
func (m *Memory) PruneBlobs(ctx context.Context, before time.Time, limit int) (pruned int, err error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return 0, err
	}
	for capability, on := range m.blobs {
		if pruned < limit && !on.Expires.IsZero() && !on.Expires.After(before) {
			delete(m.blobs, capability)
			pruned++
		}
	}
	return pruned, nil
}
