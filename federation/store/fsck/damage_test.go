package fsck_test

import (
	"errors"
	"testing"

	"github.com/baton-gateway/baton/federation/store/fsck"
)

func TestDamageErrorNamesTheFirstDamage(t *testing.T) {
	t.Parallel()
	var report fsck.Report
	if err := report.Err(); err != nil {
		t.Errorf("a sound record: %v", err)
	}
	report.Damage = []fsck.Damage{{Kind: fsck.LostKey, Where: "keys/server", Detail: "missing"}, {Kind: fsck.Orphan}}
	damaged, ok := errors.AsType[*fsck.DamageError](report.Err())
	if !ok || damaged.Error() != "key: keys/server: missing (and 1 more: --json lists them)" {
		t.Errorf("got %v", damaged)
	}
}
