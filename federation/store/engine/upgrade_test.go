package engine_test

import (
	"testing"

	"github.com/baton-gateway/baton/federation/store/engine"
)

func TestUpgradeReportsItsStages(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		dry, inFile bool
		done        engine.Upgrade
		want        string
	}{
		{true, true, engine.Upgrade{From: 1, To: 3}, "would copy the record of version 1, and bring it to version 3"},
		{true, false, engine.Upgrade{From: 1, To: 3}, "would bring the record from version 1 to version 3, and make no copy: make one with pg_dump first"},
		{true, true, engine.Upgrade{From: 0, To: 3}, "would make a record of version 3"},
		{false, true, engine.Upgrade{From: 1, To: 3, Backup: "b.bak"}, "brought the record from version 1 to version 3; the previous record is b.bak"},
		{false, false, engine.Upgrade{From: 1, To: 3}, "brought the record from version 1 to version 3"},
		{false, true, engine.Upgrade{From: 3, To: 3}, "the record is of version 3: nothing to do"},
	} {
		if got := tt.done.Sentence(tt.dry, tt.inFile); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.done, got, tt.want)
		}
	}
}
