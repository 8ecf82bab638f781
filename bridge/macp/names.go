package macp

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"baton/federation"
)

// The journals of the runtime: the history of each session, an empty journal for each session of
// a participant, which is found by its name, and the session of each handoff.
const (
	sessionPrefix = network + "/session/"
	memberPrefix  = network + "/of/"
	handoffPrefix = network + "/handoff/"
	policyJournal = network + "/policies"
)

func sessionJournal(id string) string { return sessionPrefix + id }

func handoffJournal(id federation.HandoffID) string { return handoffPrefix + id.String() }

// membersPrefix returns what the names of the sessions of a participant begin with.
func membersPrefix(name string) string {
	digest := sha256.Sum256([]byte(name))
	return memberPrefix + hex.EncodeToString(digest[:12]) + "/"
}

// memberJournal returns the name under which a session of a participant is found. Names are in
// the order in which the sessions began.
func memberJournal(name string, started int64, session string) string {
	return fmt.Sprintf("%s%013d/%s", membersPrefix(name), started, session)
}

// memberSession returns the session of such a name.
func memberSession(journal string) string { return journal[strings.LastIndexByte(journal, '/')+1:] }
