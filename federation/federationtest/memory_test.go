package federationtest_test

import (
	"testing"

	"baton/federation"
	"baton/federation/federationtest"
)

func TestMemory(t *testing.T) {
	federationtest.RunRecord(t, func(*testing.T) federation.Record { return federationtest.NewMemory() })
}
