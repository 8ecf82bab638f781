package federation_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"baton/federation"
)

func TestWhatMayBeSaidOfSomebody(t *testing.T) {
	const plc, key = federation.DID("did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"), federation.DID("did:key:z6Mk")
	late, early := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), time.Date(2026, 7, 31, 23, 59, 59, 0, time.UTC)
	for name, tt := range map[string]struct {
		seen federation.Seen
		want federation.IdentityClaim
		did  federation.DID
	}{
		"an account with a document":            {federation.Seen{Account: plc, At: late}, federation.Anchored, plc},
		"an account that is a key":              {federation.Seen{Account: key, At: late}, federation.SelfIssued, key},
		"another server's word":                 {federation.Seen{Account: plc, Origin: "irc.example", Present: true, Live: plc, At: late}, federation.Relayed, plc},
		"another server's guest":                {federation.Seen{Origin: "irc.example", At: late}, federation.Guest, ""},
		"the mark, whoever has the name now":    {federation.Seen{Account: plc, Present: true, Live: key, At: late}, federation.Anchored, plc},
		"no mark, and an account now":           {federation.Seen{Present: true, Live: key, At: early}, federation.SelfIssued, key},
		"no mark, when all had one":             {federation.Seen{At: late}, federation.Guest, ""},
		"no mark, when not all had one":         {federation.Seen{At: early}, federation.Unknown, ""},
		"no mark, and nobody knows when":        {federation.Seen{}, federation.Unknown, ""},
		"no mark then, and no account now":      {federation.Seen{Present: true, At: early}, federation.Guest, ""},
		"gone, and found by its name meanwhile": {federation.Seen{Live: plc, At: late}, federation.Guest, ""},
	} {
		if claim, did := federation.ClaimOfMessage(tt.seen); claim != tt.want || did != tt.did {
			t.Errorf("%s: %s %s, want %s %s", name, claim, did, tt.want, tt.did)
		}
	}
}

// claimVector is one case of another project's table.
type claimVector struct {
	Name  string
	Input struct {
		Account  federation.DID `json:"account"`
		Origin   string         `json:"origin"`
		Present  bool           `json:"sender_present"`
		Live     federation.DID `json:"sender_live_did"`
		Time     int64          `json:"row_time_unix"`
		Lookup   string         `json:"lookup"`
		Binding  federation.DID `json:"binding"`
		ByPeer   bool           `json:"seen_only_via_peer"`
		HadOther bool           `json:"via_peer_had_account"`
	}
	Expect struct {
		State federation.IdentityClaim
		DID   federation.DID `json:"did"`
	}
}

func (v claimVector) seen() federation.Seen {
	s := federation.Seen{Account: v.Input.Account, Origin: v.Input.Origin, Present: v.Input.Present, Live: v.Input.Live}
	if v.Input.Time != 0 {
		s.At = time.Unix(v.Input.Time, 0)
	}
	return s
}

func TestTheVectorsOfIdentityClaims(t *testing.T) {
	folder := os.Getenv("BATON_VECTORS")
	if folder == "" {
		t.Log("not run: BATON_VECTORS is unset")
		return
	}
	text, err := os.ReadFile(filepath.Join(folder, "freeq", "identity-claims.json"))
	if err != nil {
		t.Fatal(err)
	}
	var tables struct {
		Messages []claimVector `json:"message_vectors"`
		Senders  []claimVector `json:"sender_vectors"`
		Persons  []claimVector `json:"person_vectors"`
	}
	if err := json.Unmarshal(text, &tables); err != nil {
		t.Fatal(err)
	}
	for kind, table := range map[string]struct {
		cases []claimVector
		claim func(claimVector, federation.Lookup) (federation.IdentityClaim, federation.DID)
	}{
		"message": {tables.Messages, func(v claimVector, _ federation.Lookup) (federation.IdentityClaim, federation.DID) {
			return federation.ClaimOfMessage(v.seen())
		}},
		"sender": {tables.Senders, func(v claimVector, asked federation.Lookup) (federation.IdentityClaim, federation.DID) {
			return federation.ClaimOfSender(v.seen(), asked)
		}},
		"person": {tables.Persons, func(v claimVector, asked federation.Lookup) (federation.IdentityClaim, federation.DID) {
			return federation.ClaimOfPerson(v.Input.Binding, v.Input.ByPeer, v.Input.HadOther, asked)
		}},
	} {
		if len(table.cases) == 0 {
			t.Errorf("there are no vectors of a %s", kind)
		}
		for _, v := range table.cases {
			asked := federation.Lookup(v.Input.Lookup)
			if asked == "notAsked" {
				asked = ""
			}
			if claim, did := table.claim(v, asked); claim != v.Expect.State || did != v.Expect.DID {
				t.Errorf("%s %s: %s %q, want %s %q", kind, v.Name, claim, did, v.Expect.State, v.Expect.DID)
			}
		}
	}
}
