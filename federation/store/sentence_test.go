package store_test

import (
	"errors"
	"testing"

	"baton/federation/store"
)

func TestAnUpgradeSaysWhatItDoes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		dry, inFile bool
		done        store.Upgrade
		want        string
	}{
		{true, true, store.Upgrade{From: 1, To: 3}, "would copy the record of version 1, and bring it to version 3"},
		{true, false, store.Upgrade{From: 1, To: 3}, "would bring the record from version 1 to version 3"},
		{true, true, store.Upgrade{From: 0, To: 3}, "would make a record of version 3"},
		{false, true, store.Upgrade{From: 1, To: 3, Backup: "b.bak"}, "brought the record from version 1 to version 3; what was before is b.bak"},
		{false, false, store.Upgrade{From: 1, To: 3}, "brought the record from version 1 to version 3"},
		{false, true, store.Upgrade{From: 3, To: 3}, "the record is of version 3: nothing to do"},
	} {
		if got := tt.done.Sentence(tt.dry, tt.inFile); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.done, got, tt.want)
		}
	}
}

func TestADamagedRecordIsAnErrorThatNamesTheFirstDamage(t *testing.T) {
	t.Parallel()
	var report store.Report
	if err := report.Err(); err != nil {
		t.Errorf("a sound record: %v", err)
	}
	report.Damage = []store.Damage{{Kind: store.LostKey, Where: "keys/server", Detail: "missing"}, {Kind: store.Orphan}}
	damaged, ok := errors.AsType[*store.DamageError](report.Err())
	if !ok || damaged.Error() != "key: keys/server: missing (and 1 more: --json lists them)" {
		t.Errorf("got %v", damaged)
	}
}
