package main_test

import "testing"

func TestAModeHoldsForALinkThatAReloadKept(t *testing.T) {
	t.Parallel()
	gateway := assemble(t, 1)
	if err := gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if blocked, err := gateway.BlockHome(t.Context(), "p0.test"); err != nil || !blocked {
		t.Errorf("the link that runs is blocked: %t (%v)", blocked, err)
	}
}
