package federationtest_test

import (
	"testing"

	"baton/federation/federationtest"
)

func TestMemory(t *testing.T) {
	federationtest.RunRecord(t, func(*testing.T) federationtest.Record { return federationtest.NewMemory() })
}
