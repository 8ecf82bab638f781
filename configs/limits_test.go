package configs_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLimitsFairShares(t *testing.T) {
	for _, key := range []string{
		"inbox_events_per_sender", "inbox_bytes_per_sender", "first_contacts", "first_contacts_per_sender",
		"new_dids_per_hour", "new_dids_per_address_per_hour", "record_bytes_per_hour",
	} {
		for value, want := range map[int][]string{-1: {"baton.toml:4: limits." + key + ": want 1 or more, or 0 for no limit"}, 0: nil, 1: nil} {
			text := fmt.Sprintf("[home]\nname = 'gw.example'\n[limits]\n%s = %d\n", key, value)
			if diff := cmp.Diff(want, mistakes(t, text)); diff != "" {
				t.Errorf("%s = %d (-want +got):\n%s", key, value, diff)
			}
		}
	}
}
