package offline_test

import (
	"errors"
	"testing"

	"baton/federation/store/offline"
)

func TestDamageErrorNamesTheFirstDamage(t *testing.T) {
	t.Parallel()
	var report offline.Report
	if err := report.Err(); err != nil {
		t.Errorf("a sound record: %v", err)
	}
	report.Damage = []offline.Damage{{Kind: offline.LostKey, Where: "keys/server", Detail: "missing"}, {Kind: offline.Orphan}}
	damaged, ok := errors.AsType[*offline.DamageError](report.Err())
	if !ok || damaged.Error() != "key: keys/server: missing (and 1 more: --json lists them)" {
		t.Errorf("got %v", damaged)
	}
}
