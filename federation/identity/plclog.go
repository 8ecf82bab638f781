package identity

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"baton/federation"
)

// recoveryWindow is how long a key of higher rank can undo an operation.
//
// spec: did-plc "Key Rotation & Account Recovery"
const recoveryWindow = 72 * time.Hour

const (
	plcPrefix  = "did:plc:"
	plcIDBytes = 24
)

// plcLog is the operations that are in force, oldest first, while a log is read.
type plcLog struct {
	inForce   []plcOperation
	nullified map[string]bool // by CID
}

// readPLCLog checks the log of a did:plc from its first operation, and returns the last one in force. The
// DID is the hash of the first operation. A rotation key of the preceding operation signs each other
// one. An operation that follows an earlier one than the last undoes the operations between, if a key of
// higher rank signed it within [recoveryWindow].
//
// spec: did-plc "Operation serialization, signing and validation"
func readPLCLog(did federation.DID, body []byte) (plcOperation, error) {
	entries, err := parsePLCEntries(body)
	if err != nil {
		return plcOperation{}, err
	}
	if len(entries) == 0 {
		return plcOperation{}, errors.New("it is empty")
	}
	log := plcLog{nullified: map[string]bool{}}
	var latest time.Time
	for n, entry := range entries {
		o, err := parsePLCOperation(entry.operation)
		switch {
		case err != nil:
		case entry.did != string(did):
			err = fmt.Errorf("it is of %q", entry.did)
		case entry.cid != o.cid:
			err = fmt.Errorf("its CID is not %q", entry.cid)
		case entry.created.Before(latest):
			err = errors.New("it is older than the one before")
		default:
			o.created, latest = entry.created, entry.created
			err = log.add(did, o)
		}
		if err != nil {
			return plcOperation{}, fmt.Errorf("operation %d: %w", n, err)
		}
	}
	for n, entry := range entries {
		if entry.nullified != log.nullified[entry.cid] {
			return plcOperation{}, fmt.Errorf("operation %d: nullified is %t", n, entry.nullified)
		}
	}
	return log.inForce[len(log.inForce)-1], nil
}

// add judges one operation against the operations in force.
func (l *plcLog) add(did federation.DID, o plcOperation) error {
	if len(l.inForce) == 0 {
		if err := checkGenesis(did, o); err != nil {
			return err
		}
		l.inForce = []plcOperation{o}
		return nil
	}
	at := slices.IndexFunc(l.inForce, func(s plcOperation) bool { return s.cid == o.prev })
	if at < 0 {
		return errors.New("it follows no operation in force")
	}
	before, undone := l.inForce[at], l.inForce[at+1:]
	keys := before.rotation
	if before.kind == plcTombstone {
		return errors.New("it follows a tombstone")
	}
	if len(undone) > 0 {
		if o.created.Sub(undone[0].created) > recoveryWindow {
			return errors.New("it undoes one that is too old")
		}
		keys = keys[:undone[0].signer(keys)] // keys of higher rank
	}
	if o.signer(keys) == len(keys) {
		return errors.New("no key that may has signed it")
	}
	for _, u := range undone {
		l.nullified[u.cid] = true
	}
	l.inForce = append(slices.Clone(l.inForce[:at+1]), o)
	return nil
}

// checkGenesis checks that a DID is the hash of its first operation.
func checkGenesis(did federation.DID, o plcOperation) error {
	id := strings.ToLower(base32.StdEncoding.EncodeToString(o.digest[:]))[:plcIDBytes]
	switch {
	case o.prev != "" || o.kind == plcTombstone:
		return errors.New("it is no beginning")
	case plcPrefix+id != string(did):
		return fmt.Errorf("it makes the DID %s%s", plcPrefix, id)
	case o.signer(o.rotation) == len(o.rotation):
		return errors.New("none of its keys has signed it")
	}
	return nil
}

// signer returns the index of the first key that signed an operation, or the number of keys. An
// operation is identified by its bytes, its signature included, so that only one signature counts.
//
// spec: did-plc "Operation serialization, signing and validation"
func (o plcOperation) signer(keys []federation.PublicKey) int {
	for i, key := range keys {
		if verifyECDSA(key, o.unsigned, o.signature) && hasLowS(key, o.signature) {
			return i
		}
	}
	return len(keys)
}

// cidOf returns the CID of a block of DAG-CBOR: version 1, SHA-256, in base32.
//
// spec: multiformats cid "CIDv1"
func cidOf(digest [sha256.Size]byte) string {
	const header = "\x01\x71\x12\x20" // version, dag-cbor, sha2-256, 32 bytes
	return "b" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(append([]byte(header), digest[:]...)))
}
