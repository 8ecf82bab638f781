package irc_test

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

const (
	eliza   = federation.DID("did:key:z6MktULudTtAsAhRegYPiZ6631RV3viv12qd4GQF8z1xB22S")
	scholar = federation.DID("did:key:z6MkqGC3nWZhYieEVTVDKW5v588CiGfsDSmRVG9ZwwWTvLSK")
)

func step(t *testing.T, verb federation.Verb, tweak func(*translate.Step)) translate.Step {
	t.Helper()
	id, err := federation.ParseEventID("01K9ZQ00000000000000Y6Z0AB")
	if err != nil {
		t.Fatal(err)
	}
	s := translate.Step{
		Entry: federation.Entry{Event: federation.Event{
			ID: id, Handoff: id, Kind: federation.Handoff, Verb: verb, From: eliza, Stamped: true,
		}},
		View: federation.View{Title: "Cite the 3 best sources on X"},
		Name: func(did federation.DID) string {
			return map[federation.DID]string{eliza: "eliza", scholar: "scholar"}[did]
		},
	}
	if tweak != nil {
		tweak(&s)
	}
	return s
}

func TestSummary(t *testing.T) {
	id, err := federation.ParseEventID("01K9ZQ00000000000000Y6Z0AB")
	if err != nil {
		t.Fatal(err)
	}
	day := id.Time()
	at := func(hour int) time.Time {
		return time.Date(day.Year(), day.Month(), day.Day(), hour, 0, 0, 0, time.UTC)
	}
	offer := func(deadline time.Time) func(*translate.Step) {
		return func(s *translate.Step) {
			s.Event.To, s.Event.Title, s.Event.Deadline = scholar, "Cite the 3 best sources on X", deadline
		}
	}
	note := func(text string) func(*translate.Step) { return func(s *translate.Step) { s.Event.Note = text } }
	tests := []struct {
		name  string
		verb  federation.Verb
		tweak func(*translate.Step)
		want  string
	}{
		{"an offer that is due today", federation.Offer, offer(at(23)), "eliza offers scholar: Cite the 3 best sources on X (due 23:00 UTC)"},
		{
			"an offer that is due on another day", federation.Offer, offer(at(23).AddDate(0, 0, 2)),
			"eliza offers scholar: Cite the 3 best sources on X (due " + at(23).AddDate(0, 0, 2).Format("2006-01-02") + " 23:00 UTC)",
		},
		{"an offer without a deadline", federation.Offer, offer(time.Time{}), "eliza offers scholar: Cite the 3 best sources on X"},
		{"an offer to anyone", federation.Offer, nil, "eliza offers anyone: Cite the 3 best sources on X"},
		{"an accept", federation.Accept, nil, "eliza accepts: Cite the 3 best sources on X"},
		{"a decline with its reason", federation.Decline, note("busy"), "eliza declines: Cite the 3 best sources on X — busy"},
		{"a claim", federation.Claim, nil, "eliza claims: Cite the 3 best sources on X"},
		{"a progress", federation.Progress, note("2 of 3"), "eliza reports progress: Cite the 3 best sources on X — 2 of 3"},
		{"a complete", federation.Complete, nil, "eliza completes: Cite the 3 best sources on X"},
		{"a fail", federation.Fail, nil, "eliza fails: Cite the 3 best sources on X"},
		{"a cancel", federation.Cancel, nil, "eliza cancels: Cite the 3 best sources on X"},
		{"an expiry, which nobody did", federation.Expire, nil, "expired: Cite the 3 best sources on X"},
		{"a verb of another kind", "accept-work", nil, "eliza accept-work: Cite the 3 best sources on X"},
		{"an end that nobody made", "auto-accept", func(s *translate.Step) {
			s.Event.From, s.View.Home = "did:web:gw.example", "gw.example"
		}, "auto-accept: Cite the 3 best sources on X"},
		{"a step of somebody else's key", federation.Accept, func(s *translate.Step) {
			s.Event.Provenance, s.Event.For = federation.Vouched, scholar
		}, "scholar accepts: Cite the 3 best sources on X"},
		{"no control characters, colours or line ends", federation.Progress, note("a\r\nQUIT :b\x03\x00"), "eliza reports progress: Cite the 3 best sources on X — a QUIT :b"},
	}
	for _, tt := range tests {
		t.Run("tells "+tt.name, func(t *testing.T) {
			want := "[handoff …Y6Z0AB] " + tt.want
			if diff := cmp.Diff(want, irc.Summary(step(t, tt.verb, tt.tweak))); diff != "" {
				t.Errorf("line (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("cuts a long text at a character and keeps the deadline", func(t *testing.T) {
		for pad := range 4 {
			line := irc.Summary(step(t, federation.Offer, func(s *translate.Step) {
				s.Event.Title, s.Event.Deadline = strings.Repeat("a", pad)+strings.Repeat("ü", 300), at(23)
			}))
			if len(line) > irc.MaxTextBytes || !utf8.ValidString(line) || !strings.HasSuffix(line, "… (due 23:00 UTC)") {
				t.Errorf("%d bytes: %q", len(line), line)
			}
		}
	})
}

func TestPrivateSummary(t *testing.T) {
	for name, tt := range map[string]struct {
		verb  federation.Verb
		tweak func(*translate.Step)
		want  string
	}{
		"an offer": {
			federation.Offer, func(s *translate.Step) { s.Event.To, s.Event.Title = scholar, "Cite" },
			"eliza offers scholar: Cite — answer: /msg Baton-2 accept Y6Z0AB or /msg Baton-2 decline Y6Z0AB",
		},
		"an offer to anyone": {
			federation.Offer, func(s *translate.Step) { s.Event.Title = "Cite" },
			"eliza offers anyone: Cite — answer: /msg Baton-2 claim Y6Z0AB",
		},
		"an answer": {federation.Accept, nil, "eliza accepts: Cite the 3 best sources on X"},
	} {
		if got, want := irc.PrivateSummary(step(t, tt.verb, tt.tweak), "Baton-2"), "[handoff …Y6Z0AB] "+tt.want; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	long := irc.PrivateSummary(step(t, federation.Offer, func(s *translate.Step) {
		s.Event.To, s.Event.Title = scholar, strings.Repeat("ü", 300)
	}), "Baton")
	if len(long) > irc.MaxTextBytes || !strings.HasSuffix(long, "… — answer: /msg Baton accept Y6Z0AB or /msg Baton decline Y6Z0AB") {
		t.Errorf("%d bytes: %q", len(long), long)
	}
}

func TestNickCollisions(t *testing.T) {
	hash := scholar.Hash()
	tests := []struct {
		name, given, suffix string
		maxBytes            int
		want                []string // the first few
	}{
		{"keep a name that is one", "scholar", "", 30, []string{"scholar", "scholar_" + hash[:4], "scholar_" + hash[:5]}},
		{"have the suffix", "scholar", "-gw", 30, []string{"scholar-gw", "scholar-gw_" + hash[:4]}},
		{"start with no digit", "4ever", "", 30, []string{"_4ever"}},
		{"start with no hyphen", "-x", "", 30, []string{"_-x"}},
		{"have only characters of nicks", "a b@c:ü!d", "", 30, []string{"a_b_c___d"}},
		{"come from a DID that was cut", "did:key:z6Mkqo…", "", 30, []string{"did_key_z6Mkqo"}},
		{"are there for no name", "", "", 30, []string{"_"}},
		{"fit", "a-scholar-of-many-words", "", 12, []string{"a-schol_" + hash[:4], "a-scho_" + hash[:5]}},
		{"do not exist where nothing fits", "scholar", "", 3, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := slices.Collect(irc.Nicks(tt.given, tt.suffix, scholar, tt.maxBytes))
			for _, nick := range got {
				if len(nick) > tt.maxBytes || !irc.ValidNick(nick) {
					t.Errorf("%q is no nick of %d bytes", nick, tt.maxBytes)
				}
			}
			if diff := cmp.Diff(tt.want, got[:min(len(got), len(tt.want))]); diff != "" {
				t.Errorf("nicks (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckTags(t *testing.T) {
	many := map[string]string{}
	for i := range irc.MaxTags + 1 {
		many["+x"+strings.Repeat("y", i)] = "1"
	}
	tests := []struct {
		name string
		tags map[string]string
		good bool
	}{
		{"takes the most bytes", map[string]string{"+a": strings.Repeat("x", irc.MaxTagBytes-3)}, true},
		{"takes no more bytes", map[string]string{"+a": strings.Repeat("x", irc.MaxTagBytes-2)}, false},
		{"counts escapes", map[string]string{"+a": strings.Repeat(";", irc.MaxTagBytes/2)}, false},
		{"takes no more tags", many, false},
		{"takes nothing but UTF-8", map[string]string{"+a": "\xff"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := irc.CheckTags(tt.tags); (err == nil) != tt.good {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestNickOfADIDWithoutANameIsReadable(t *testing.T) {
	t.Parallel()
	key := federation.DID("did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK")
	for did, want := range map[federation.DID]string{
		"did:web:gw.example:agents:scout": "scout-gw", "did:web:scout.example.com": "scout-gw",
		key: "agent-" + key.Hash()[:4] + "-gw", "did:plc:ewvi7nxzyoun6zhxrhs64oiz": "agent-" + federation.DID("did:plc:ewvi7nxzyoun6zhxrhs64oiz").Hash()[:4] + "-gw",
	} {
		for nick := range irc.Nicks(did.Short(), "-gw", did, 64) {
			if nick != want {
				t.Errorf("%s is called %s, want %s", did, nick, want)
			}
			break
		}
	}
}
