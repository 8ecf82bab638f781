package main

import (
	"testing"

	"baton/configs"
	"baton/federation/store"
)

func TestMigrateSaysWhatItDoes(t *testing.T) {
	tests := []struct {
		dry    bool
		driver string
		done   store.Upgrade
		want   string
	}{
		{true, configs.SQLite, store.Upgrade{From: 1, To: 3}, "would copy the record of version 1, and bring it to version 3"},
		{true, configs.Postgres, store.Upgrade{From: 1, To: 3}, "would bring the record from version 1 to version 3"},
		{true, configs.SQLite, store.Upgrade{From: 0, To: 3}, "would make a record of version 3"},
		{false, configs.SQLite, store.Upgrade{From: 1, To: 3, Backup: "b.bak"}, "brought the record from version 1 to version 3; what was before is b.bak"},
		{false, configs.Postgres, store.Upgrade{From: 1, To: 3}, "brought the record from version 1 to version 3"},
	}
	for _, tt := range tests {
		if got := (migrateCommand{DryRun: tt.dry}).sentence(tt.done, tt.driver); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.done, got, tt.want)
		}
	}
}
