package bridge_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

func TestIdentityClaimRefusesFalseClaims(t *testing.T) {
	const plc, key = federation.DID("did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"), federation.DID("did:key:z6Mk")
	late, early := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), time.Date(2026, 7, 31, 23, 59, 59, 0, time.UTC)
	for name, tt := range map[string]struct {
		seen bridge.Seen
		want bridge.IdentityClaim
		did  federation.DID
	}{
		"an account with a document":              {bridge.Seen{Account: plc, At: late}, bridge.Anchored, plc},
		"an account that is a key":                {bridge.Seen{Account: key, At: late}, bridge.SelfIssued, key},
		"another server's word":                   {bridge.Seen{Account: plc, Origin: "irc.example", Present: true, Live: plc, At: late}, bridge.Relayed, plc},
		"another server's guest":                  {bridge.Seen{Origin: "irc.example", At: late}, bridge.Guest, ""},
		"the mark, with another user of the name": {bridge.Seen{Account: plc, Present: true, Live: key, At: late}, bridge.Anchored, plc},
		"no mark, and an account now":             {bridge.Seen{Present: true, Live: key, At: early}, bridge.SelfIssued, key},
		"no mark, when all had one":               {bridge.Seen{At: late}, bridge.Guest, ""},
		"no mark, when not all had one":           {bridge.Seen{At: early}, bridge.Unknown, ""},
		"no mark, and no time":                    {bridge.Seen{}, bridge.Unknown, ""},
		"no mark then, and no account now":        {bridge.Seen{Present: true, At: early}, bridge.Guest, ""},
		"gone, and found by its name meanwhile":   {bridge.Seen{Live: plc, At: late}, bridge.Guest, ""},
	} {
		if claim, did := bridge.ClaimOfMessage(tt.seen); claim != tt.want || did != tt.did {
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
		State bridge.IdentityClaim
		DID   federation.DID `json:"did"`
	}
}

func (v claimVector) seen() bridge.Seen {
	s := bridge.Seen{Account: v.Input.Account, Origin: v.Input.Origin, Present: v.Input.Present, Live: v.Input.Live}
	if v.Input.Time != 0 {
		s.At = time.Unix(v.Input.Time, 0)
	}
	return s
}

func TestIdentityClaimMatchesItsVectors(t *testing.T) {
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
		Persons  []claimVector `json:"person_vectors"`
	}
	if err := json.Unmarshal(text, &tables); err != nil {
		t.Fatal(err)
	}
	for kind, table := range map[string]struct {
		cases []claimVector
		claim func(claimVector, bridge.Lookup) (bridge.IdentityClaim, federation.DID)
	}{
		"message": {tables.Messages, func(v claimVector, _ bridge.Lookup) (bridge.IdentityClaim, federation.DID) {
			return bridge.ClaimOfMessage(v.seen())
		}},
		"person": {tables.Persons, func(v claimVector, asked bridge.Lookup) (bridge.IdentityClaim, federation.DID) {
			return bridge.ClaimOfPerson(v.Input.Binding, v.Input.ByPeer, v.Input.HadOther, asked)
		}},
	} {
		if len(table.cases) == 0 {
			t.Errorf("there are no vectors of a %s", kind)
		}
		for _, v := range table.cases {
			asked := bridge.Lookup(v.Input.Lookup)
			if asked == "notAsked" {
				asked = ""
			}
			if claim, did := table.claim(v, asked); claim != v.Expect.State || did != v.Expect.DID {
				t.Errorf("%s %s: %s %q, want %s %q", kind, v.Name, claim, did, v.Expect.State, v.Expect.DID)
			}
		}
	}
}
