package airc_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
)

func TestPairMessageToTheRegistryIsAnsweredWithACode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	status, answer, err := scout.Send(t.Context(), "system", " Pair\n", nil)
	if err != nil || status != http.StatusCreated || answer["status"] != "delivered" {
		t.Fatalf("the message is answered %d %v, %v", status, answer, err)
	}
	messages := inbox(t, scout)
	if len(messages) != 1 || messages[0].From != "system" {
		t.Fatalf("the inbox has %+v", messages)
	}
	rest, _ := strings.CutPrefix(messages[0].Body, "Your pairing code is ")
	code, _, _ := strings.Cut(rest, ".")
	paired, err := w.record.SpendPairing(t.Context(), federation.DigestLoginCode(federation.PairingCode, code), time.Now())
	if err != nil || string(paired.DID) != scout.DID || paired.Key == "" {
		t.Errorf("%q has the code of %+v, %v", messages[0].Body, paired, err)
	}
	if status, _, err := scout.Send(t.Context(), "system", "hello", nil); err != nil || status != http.StatusNotFound {
		t.Errorf("any other message is answered %d, %v", status, err)
	}
}
