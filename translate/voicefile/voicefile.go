// Package voicefile reads and writes the files of the voice handoff protocol, version 1: the signed
// handoff file, the sidecar of a rejected file, and the bootstrap of the receiver. It does no I/O.
//
// A handoff file is one JSON object. An HMAC over its canonical form authenticates all members
// except "hmac" itself, with the secret of the pair of agents. [Sealed.Open] verifies the HMAC
// before it reads any other member.
//
// The package is stricter than the reference implementation on purpose: a version is the integer 1,
// a handoff_id is text safe in a path, times have a zone, and a repeated member makes a file
// unreadable.
package voicefile

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// MaxBytes bounds a handoff file. The protocol has no limit.
const MaxBytes = 1 << 20

// Version is the only protocol version.
const Version = 1

// Code is the reason for rejecting a file.
type Code string

// Codes of a sidecar.
const (
	Expired       Code = "expired"
	BadHMAC       Code = "bad-hmac"
	NoSecret      Code = "no-secret"
	Replayed      Code = "replayed" // the same file was accepted before
	Future        Code = "future"   // it begins later than the clock skew allows
	BadID         Code = "bad-id"
	BadTime       Code = "bad-time"
	BadVersion    Code = "bad-version"
	BadTranscript Code = "bad-transcript"
	BadCaller     Code = "bad-caller"
	Declined      Code = "declined"
	Failed        Code = "failed"
	Cancelled     Code = "cancelled"
)

// Error is the reason for rejecting a file, with details.
type Error struct {
	Code   Code
	Detail string
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Detail }

func rejected(code Code, format string, args ...any) error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// ErrUnreadable is wrapped by the error of [Read] for a text that is not a handoff file.
var ErrUnreadable = errors.New("voicefile: not a handoff file")

// Sealed is a file with an unverified HMAC. Do not trust its content.
type Sealed struct {
	From, To string // "" if the member is not text
	hmac     string
	members  object
}

// Read parses a file, in any JSON layout. Its error wraps [ErrUnreadable].
func Read(text []byte) (Sealed, error) {
	value, err := parse(text)
	if err != nil {
		return Sealed{}, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	members, ok := value.(object)
	if !ok {
		return Sealed{}, fmt.Errorf("%w: it is not a JSON object", ErrUnreadable)
	}
	s := Sealed{members: members}
	s.From, s.To, s.hmac = members.text("from_agent"), members.text("to_agent"), members.text("hmac")
	return s, nil
}

// Key identifies the file by 16 hexadecimal digits. Two files with the same handoff_id are
// different handoffs unless their HMACs are equal.
func (s Sealed) Key() string {
	sum := sha256.Sum256([]byte(s.hmac))
	return hex.EncodeToString(sum[:8])
}

// Verified reports whether one of the given secrets made the HMAC of the file. The comparison takes
// constant time.
func (s Sealed) Verified(secrets ...string) bool {
	sum, err := base64.StdEncoding.Strict().DecodeString(s.hmac)
	if err != nil || len(sum) != sha256.Size {
		return false
	}
	unsigned := s.members.without("hmac")
	fits := func(secret string) bool { return hmac.Equal(sum, seal(unsigned, secret)) }
	return slices.ContainsFunc(secrets, fits)
}

func seal(unsigned object, secret string) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write(canonical(unsigned)) // a hash returns no error
	return mac.Sum(nil)
}

// Open verifies the HMAC of a file addressed to an agent, and returns the handoff. Its error is an
// [*Error], with [NoSecret] if there is no secret.
func (s Sealed) Open(secrets []string, now time.Time, skew time.Duration) (File, error) {
	switch {
	case len(secrets) == 0:
		return File{}, rejected(NoSecret, "no secret is configured for %q and %q", s.From, s.To)
	case !s.Verified(secrets...):
		return File{}, rejected(BadHMAC, "no secret of the pair made this hmac")
	}
	f, err := s.file()
	if err != nil {
		return f, err
	}
	switch {
	case f.Expires.Before(now):
		return f, rejected(Expired, "it expired at %s", f.Expires.Format(time.RFC3339Nano))
	case f.Initiated.After(now.Add(skew)):
		return f, rejected(Future, "it begins at %s", f.Initiated.Format(time.RFC3339Nano))
	}
	return f, nil
}

// Trusted returns the handoff in a file with a valid HMAC, regardless of the clock. Its error is an
// [*Error].
func (s Sealed) Trusted(secrets []string) (File, error) {
	if !s.Verified(secrets...) {
		return File{}, rejected(BadHMAC, "no secret of the pair made this hmac")
	}
	return s.file()
}

// File is a handoff as its signer wrote it.
type File struct {
	ID         string
	Caller     string
	From, To   string
	Reason     string
	Initiated  time.Time
	Expires    time.Time
	Transcript json.RawMessage
	Carry      json.RawMessage // x_fed, added by a gateway; may be nil
	Key        string
	// Context is the transcript and all members not named by the protocol, as one JSON object, or
	// "".
	Context string
}

var (
	safeID     = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)
	callerHash = regexp.MustCompile(`^[0-9a-f]{16}$`)
)

// CarryMember is the member for gateway data that has no member in the protocol.
const CarryMember = "x_fed"

func own() []string {
	return []string{
		"protocol_version", "handoff_id", "caller_hash", "from_agent", "to_agent", "reason", "initiated_at", "expires_at", "transcript", "hmac",
	}
}

// file checks the members in the order of the reference.
func (s Sealed) file() (File, error) {
	f := File{From: s.From, To: s.To, ID: s.members.text("handoff_id"), Caller: s.members.text("caller_hash"), Reason: s.members.text("reason"), Key: s.Key()}
	version, _ := s.members.get("protocol_version").(json.Number)
	switch {
	case version != "1":
		return f, rejected(BadVersion, "protocol_version is not the number 1")
	case !safeID.MatchString(f.ID):
		return f, rejected(BadID, "handoff_id is not 1 to 128 letters, digits, - and _")
	case f.From == f.To:
		return f, rejected(BadID, "from_agent and to_agent are the same agent")
	case !callerHash.MatchString(f.Caller):
		return f, rejected(BadCaller, "caller_hash is not 16 lower-case hexadecimal digits")
	}
	if err := s.readTimes(&f); err != nil {
		return f, err
	}
	list, ok := s.members.get("transcript").([]any)
	if !ok {
		return f, rejected(BadTranscript, "transcript is not a list")
	}
	if i := slices.IndexFunc(list, func(line any) bool { return !isLine(line) }); i >= 0 {
		return f, rejected(BadTranscript, "transcript[%d] is not an object with a role and a text", i)
	}
	f.Transcript = write(list)
	f.Context = s.context()
	if carry, ok := s.members.get(CarryMember).(object); ok {
		f.Carry = write(carry)
	}
	return f, nil
}

func (s Sealed) readTimes(f *File) (err error) {
	if f.Initiated, err = readTime(s.members.text("initiated_at")); err != nil {
		return rejected(BadTime, "initiated_at is not a time with a zone")
	}
	if f.Expires, err = readTime(s.members.text("expires_at")); err != nil {
		return rejected(BadTime, "expires_at is not a time with a zone")
	}
	if !f.Expires.After(f.Initiated) {
		return rejected(BadTime, "expires_at is not after initiated_at")
	}
	return nil
}

// The time has a zone, and a "T" or a space in its middle.
func readTime(text string) (time.Time, error) {
	if len(text) > 10 && text[10] == ' ' {
		text = text[:10] + "T" + text[11:]
	}
	return time.Parse(time.RFC3339Nano, text)
}

func isLine(value any) bool {
	line, ok := value.(object)
	if !ok {
		return false
	}
	role := line.text("role")
	_, hasText := line.get("text").(string)
	return hasText && (role == "user" || role == "assistant" || role == "system")
}

// The context omits the carry of a gateway.
func (s Sealed) context() string {
	rest := s.members.without(append(own(), CarryMember)...)
	transcript, _ := s.members.get("transcript").([]any)
	if len(rest) == 0 && len(transcript) == 0 {
		return ""
	}
	rest = append(object{{"transcript", transcript}}, rest...)
	return string(write(rest))
}

// Reason is the sidecar of a rejected file.
type Reason struct {
	Code   Code      `json:"code"`
	Detail string    `json:"detail"`
	At     time.Time `json:"at"`
}

// Bytes returns the sidecar in its written form.
func (r Reason) Bytes() []byte {
	r.At = r.At.UTC().Truncate(time.Millisecond)
	text, err := json.Marshal(r)
	if err != nil { // each field has a JSON form
		panic("voicefile: " + err.Error())
	}
	return append(text, '\n')
}

// ReadReason reads a sidecar. It returns the zero Reason for any other text.
func ReadReason(text []byte) Reason {
	var r Reason
	if federation.DecodeJSON(bytes.TrimSpace(text), &r) != nil {
		return Reason{}
	}
	return r
}

// CallerHash returns the caller_hash of a caller without a telephone number. The name of such a
// caller is not a secret.
func CallerHash(caller string) string {
	sum := sha256.Sum256([]byte(caller))
	return hex.EncodeToString(sum[:8])
}

// ClaimName returns the name of a file in the folder of claimed files. It ends with a hash of the
// home of the claiming gateway. The author chooses only the checked caller_hash.
func (f File) ClaimName(home federation.HomeID) string {
	sum := sha256.Sum256([]byte(home))
	return f.Caller + "-" + f.Key + "-" + hex.EncodeToString(sum[:4]) + ".json"
}

// SharedClaimName returns the name that earlier versions gave a claimed file, without the claiming
// gateway.
func (f File) SharedClaimName() string { return f.Caller + "-" + f.Key + ".json" }

// ArchiveName returns the name of a file in the archive.
func (f File) ArchiveName(now time.Time) string {
	return fmt.Sprintf("%d-%s-%s-%s.json", now.Unix(), f.From, f.To, f.ID)
}
