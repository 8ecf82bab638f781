package voicefile_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/translate/voicefile"
)

// vectors is the file of vectors that a run of the reference implementation made.
type vectors struct {
	Signed []struct {
		Name   string
		Secret string          `json:"secret_utf8"`
		File   string          `json:"file_bytes_utf8"`
		HMAC   string          `json:"hmac"`
		Loose  json.RawMessage `json:"payload"`
	}
	Cases []struct {
		Name    string
		Now     time.Time
		Secret  *string `json:"secret_utf8"`
		Payload json.RawMessage
	} `json:"validate_cases"`
	Callers []struct {
		ID   string `json:"caller_id"`
		Hash string `json:"caller_hash"`
	} `json:"caller_hash"`
	Numbers []struct {
		Literal string `json:"json_literal"`
		Printed string `json:"python_redump"`
	}
}

// read reads one file of vectors. It returns false if the environment names no folder.
func read(t *testing.T, name string, into any) bool {
	t.Helper()
	dir := os.Getenv("BATON_VECTORS")
	if dir == "" {
		t.Log("not run: BATON_VECTORS is unset")
		return false
	}
	text, err := os.ReadFile(filepath.Join(dir, "voice", name))
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
	return true
}

func TestVectorsOfTheReferenceHaveTheirHMAC(t *testing.T) {
	t.Parallel()
	var v vectors
	if !read(t, "vectors.json", &v) {
		return
	}
	for _, tt := range v.Signed {
		for layout, text := range map[string]string{"as written": tt.File, "in another layout": string(tt.Loose)} {
			s, err := voicefile.Read([]byte(text))
			if err != nil {
				t.Errorf("%s %s: %v", tt.Name, layout, err)
				continue
			}
			if !s.Verified(tt.Secret) || s.Verified("another secret, long") {
				t.Errorf("%s %s: the HMAC is judged wrongly", tt.Name, layout)
			}
		}
	}
	for _, tt := range v.Callers {
		if got := voicefile.CallerHash(tt.ID); got != tt.Hash {
			t.Errorf("caller %q has hash %s, want %s", tt.ID, got, tt.Hash)
		}
	}
	for _, tt := range v.Numbers {
		if got := voicefile.Number(tt.Literal); got != tt.Printed {
			t.Errorf("%s is printed as %s, want %s", tt.Literal, got, tt.Printed)
		}
	}
}

// verdicts is the code for each case of the vectors, "" for an accepted file. A comment marks
// differing verdicts of the reference.
func verdicts() map[string]voicefile.Code {
	return map[string]voicefile.Code{
		"good":                       "",
		"exactly-at-expiry-still-ok": "",
		"one-microsecond-late":       voicefile.Expired,
		"before-initiated-accepted":  voicefile.Future, // accepted there
		"wrong-secret":               voicefile.BadHMAC,
		"tampered-reason":            voicefile.BadHMAC,
		"added-field":                voicefile.BadHMAC,
		"hmac-missing":               voicefile.BadHMAC,
		"hmac-empty":                 voicefile.BadHMAC,
		"hmac-nonascii":              voicefile.BadHMAC, // a crash there
		"version-2":                  voicefile.BadVersion,
		"version-string":             voicefile.BadVersion,
		"version-float-accepted":     voicefile.BadVersion, // accepted there
		"version-true-accepted":      voicefile.BadVersion, // accepted there
		"unknown-agent":              voicefile.NoSecret,
		"self":                       voicefile.NoSecret,
		"agent-list":                 voicefile.NoSecret, // a crash there
		"caller-hash-upper":          voicefile.BadCaller,
		"caller-hash-prefixed":       voicefile.BadCaller,
		"expires-equals-initiated":   voicefile.BadTime,
		"naive-initiated":            voicefile.BadTime, // a crash there
		"both-naive":                 voicefile.BadTime, // a crash there
		"numeric-time":               voicefile.BadTime,
		"transcript-object":          voicefile.BadTranscript,
		"role-tool":                  voicefile.BadTranscript,
		"text-number":                voicefile.BadTranscript,
		"handoff-id-number-accepted": voicefile.BadID, // accepted there
		"reason-null-accepted":       "",
		"no-secret-skips-hmac":       voicefile.NoSecret, // accepted there
	}
}

func TestReadFollowsTheVectors(t *testing.T) {
	t.Parallel()
	var v vectors
	if !read(t, "vectors.json", &v) {
		return
	}
	got := map[string]voicefile.Code{}
	for _, tt := range v.Cases {
		s, err := voicefile.Read(tt.Payload)
		if err != nil {
			t.Fatalf("%s: %v", tt.Name, err)
		}
		var secrets []string
		if tt.Secret != nil && s.From == "bob" && s.To == "alice" { // the one pair with a secret
			secrets = []string{*tt.Secret, "the previous secret of the pair"}
		}
		_, err = s.Open(secrets, tt.Now, 2*time.Minute)
		got[tt.Name] = codeOf(err)
	}
	if diff := cmp.Diff(verdicts(), got); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
}

func codeOf(err error) voicefile.Code {
	if refused, ok := errors.AsType[*voicefile.Error](err); ok {
		return refused.Code
	}
	return ""
}
