//go:build interop

package main_test

import (
	"strings"
	"testing"
)

func TestPassportOfACrossingIsVerifiedByAStranger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.offer(t)
	_, cursor := w.greet(t)
	w.read(t, &s, cursor)
	for _, r := range s.replies() {
		w.answer(t, r)
		nextStep(t, w.alice, r.verb, s.id)
	}
	folder := w.export(t, s.id)
	w.kill(t)
	told, code := verifyPassport(t, folder)
	want := "valid: offered by " + w.key.did + " (signed), accepted by " + w.scout.DID + " (vouched by did:web:gw.test), completed 20"
	if code != 0 || !strings.HasPrefix(told, want) {
		t.Errorf("told %d, %s\nwant %s", code, told, want)
	}
	for _, forged := range []struct{ word, other, told string }{
		{"two of 3", "two of 4", "step-signature in step 3"},
		{`"verb":"offer"`, `"verb":"claim"`, "step-verb in step 1"},
	} {
		forgePassport(t, folder, forged.word, forged.other)
		if told, code := verifyPassport(t, folder); code != 3 || !strings.Contains(told, forged.told) {
			t.Errorf("with %q for %q told %d, %s; want %s", forged.other, forged.word, code, told, forged.told)
		}
	}
}
