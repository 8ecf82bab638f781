package macp

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/journals"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

const maxPolicies = 100

// The engine owns the policies.
type policies struct {
	byID   map[string]registered
	length uint64 // of the journal
}

type registered struct {
	*macpv1.PolicyDescriptor

	by string
}

// An entry is the registering participant followed by the policy, or only the ID of a removed
// policy.
func readPolicies(ctx context.Context, record *journals.Journals) (*policies, error) {
	p := &policies{byID: map[string]registered{macpmode.DefaultPolicy: {PolicyDescriptor: macpmode.BuiltIn()}}}
	for {
		page, err := record.Journal(ctx, policyJournal, p.length, pageEntries)
		if err != nil {
			return nil, fmt.Errorf("read policies: %w", err)
		}
		for _, entry := range page {
			if err := p.apply(entry); err != nil {
				return nil, fmt.Errorf("read policies: %w", err)
			}
		}
		if len(page) < pageEntries {
			return p, nil
		}
	}
}

func (p *policies) apply(entry []byte) error {
	p.length++
	by, text, _ := strings.Cut(string(entry), "\n")
	if text == "" {
		delete(p.byID, by)
		return nil
	}
	d := &macpv1.PolicyDescriptor{}
	if err := proto.Unmarshal([]byte(text), d); err != nil {
		return err
	}
	p.byID[d.GetPolicyId()] = registered{d, by}
	return nil
}

// The entry is applied once it is on disk.
func (t *turn) changePolicies(entry []byte) {
	e := t.engine
	t.batch.more = append(t.batch.more, federation.JournalWrite{Name: policyJournal, Length: e.policies.length + t.batch.policies, Entries: [][]byte{entry}})
	t.batch.policies++
	t.batch.events = append(t.batch.events, func() {
		if err := e.policies.apply(entry); err != nil {
			return // cannot fail: the entry was encoded from a policy
		}
		names := slices.Collect(maps.Keys(e.watchers.policies))
		broadcast(e.watchers.policies, names, &macpv1.WatchPoliciesResponse{Descriptors: e.policies.list(""), ObservedAtUnixMs: t.now.UnixMilli()})
	})
}

// list returns all policies if mode is "", sorted by ID.
func (p *policies) list(mode string) []*macpv1.PolicyDescriptor {
	var all []*macpv1.PolicyDescriptor
	for _, id := range slices.Sorted(maps.Keys(p.byID)) {
		if d := p.byID[id].PolicyDescriptor; mode == "" || d.GetMode() == mode || d.GetMode() == "*" {
			all = append(all, d)
		}
	}
	return all
}

func (b *batch) claims(id string) bool { return slices.Contains(b.claimed, id) }
