package federation_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
)

func TestParseBlockAcceptsOneSpelling(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]federation.Block{
		"did:plc:aaaaaaaaaaaaaaaaaaaaaaaa": {What: "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa", Kind: federation.BlockDID},
		"did:web:evil.example":             {What: "did:web:evil.example", Kind: federation.BlockDID},
		"192.0.2.7":                        {What: "192.0.2.7/32", Kind: federation.BlockNetwork},
		"192.0.2.7/24":                     {What: "192.0.2.0/24", Kind: federation.BlockNetwork},
		"::ffff:192.0.2.7":                 {What: "192.0.2.7/32", Kind: federation.BlockNetwork},
		"2001:db8::7":                      {What: "2001:db8::/64", Kind: federation.BlockNetwork},
		"2001:db8::/32":                    {What: "2001:db8::/32", Kind: federation.BlockNetwork},
		"Mallory":                          {What: "mallory", Kind: federation.BlockParticipant},
		"mallory@Peer.example":             {What: "mallory@peer.example", Kind: federation.BlockParticipant},
		"Mal*!*@lab":                       {What: "mal*!*@lab", Kind: federation.BlockMask},
		"[x]!~u@h@lab":                     {What: "[x]!~u@h@lab", Kind: federation.BlockMask},
		"*!evil@*":                         {What: "*!evil@*", Kind: federation.BlockMask},
		"host:Evil.example":                {What: "host:evil.example", Kind: federation.BlockHost},
		"evil.example":                     {What: "host:evil.example", Kind: federation.BlockHost},
		"host:127.0.0.1":                   {What: "host:127.0.0.1", Kind: federation.BlockHost},
	} {
		got, err := federation.ParseBlock(text)
		if err != nil || got != want {
			t.Errorf("%q is %+v, %v, want %+v", text, got, err, want)
		}
		if again, err := federation.ParseBlock(got.What); err != nil || again != want {
			t.Errorf("%q is read as %+v, %v", got.What, again, err)
		}
	}
	for _, text := range []string{
		"", " ", "did:plc", "did:Web:x.example", "0.0.0.0/0", "::/0", "192.0.2.0/33", "::ffff:0:0/96", "nick!user", "nick!@lab", "!u@lab", "n!u@",
		"*!*@*", "host:", "host:localhost", "host:a..example", "host:a.example:443", "a@b@c/d", "mal lory", "mallory@", "@peer.example", "mållory", "a/b",
	} {
		if got, err := federation.ParseBlock(text); err == nil {
			t.Errorf("%q is taken for %+v", text, got)
		}
	}
}

func TestBlocksMatchOnlyTheirSources(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	did := func(did string) federation.Source {
		return federation.Source{DIDs: []federation.DID{"did:key:other", federation.DID(did)}}
	}
	from := func(network string) federation.Source {
		return federation.Source{Address: netip.MustParsePrefix(network)}
	}
	handle := func(handle string) federation.Source { return federation.Source{Participants: []string{handle}} }
	user := func(nick, user, link string) federation.Source {
		return federation.Source{Name: nick, User: user, Link: link}
	}
	for _, test := range []struct {
		what   string
		source federation.Source
		want   bool
	}{
		{"did:plc:aaaaaaaaaaaaaaaaaaaaaaaa", did("did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"), true},
		{"did:plc:aaaaaaaaaaaaaaaaaaaaaaaa", did("did:plc:aaaaaaaaaaaaaaaaaaaaaaab"), false},
		{"did:web:evil.example", did("did:web:evil.example:bot"), false},
		{"192.0.2.0/24", from("192.0.2.7/32"), true},
		{"192.0.2.0/24", from("192.0.3.7/32"), false},
		{"192.0.2.0/24", federation.Source{}, false},
		{"2001:db8::7", from("2001:db8::/64"), true},
		{"2001:db8::/32", from("2001:db8:1:2::/64"), true},
		{"2001:db8::/32", from("2001:db9::/64"), false},
		{"mallory", handle("mallory"), true},
		{"mallory", handle("mallory@peer.example"), false},
		{"mallory@peer.example", handle("Mallory@peer.example"), true},
		{"mallory@peer.example", handle("mallory"), false},
		{"mal*!*@lab", user("Mallory", "~x", "lab"), true},
		{"mal*!*@lab", user("Mallory", "~x", "dev"), false},
		{"mal*!*@lab", user("alice", "~x", "lab"), false},
		{"*!ev?l@*", user("alice", "evil", "dev"), true},
		{"*!ev?l@*", user("alice", "", "dev"), false},
		{"*!x@lab", federation.Source{Link: "lab"}, false},
		{"host:evil.example", did("did:web:evil.example"), true},
		{"host:evil.example", did("did:web:evil.example%3A8443:bot"), true},
		{"host:evil.example", did("did:web:a.b.evil.example:bot"), true},
		{"host:evil.example", did("did:web:notevil.example"), false},
		{"host:evil.example", did("did:web:example"), false},
		{"host:evil.example", did("did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"), false},
		{"host:127.0.0.1", did("did:web:127.0.0.1%3A8443"), true},
	} {
		block, err := federation.ParseBlock(test.what)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := federation.NewBlocks([]federation.Block{block}).Match(test.source, now); ok != test.want || ok && got != block {
			t.Errorf("%s fits %+v: %t, want %t", test.what, test.source, ok, test.want)
		}
		block.Expires = now
		if _, ok := federation.NewBlocks([]federation.Block{block}).Match(test.source, now); ok {
			t.Errorf("%s fits when it is over", test.what)
		}
	}
	var none *federation.Blocks
	if _, ok := none.Match(handle("mallory"), now); ok || !none.Empty() {
		t.Error("no blocks fit a source")
	}
}

func TestSite(t *testing.T) {
	t.Parallel()
	for subnet, want := range map[string]string{
		"192.0.2.7/32": "192.0.2.0/24", "192.0.2.0/24": "192.0.2.0/24", "10.0.0.0/8": "10.0.0.0/8",
		"2001:db8:1:2::/64": "2001:db8:1::/48", "2001:db8:1:2::5/128": "2001:db8:1::/48", "": "", "invalid Prefix": "", "lab": "",
	} {
		if got := federation.Site(subnet); got != want {
			t.Errorf("Site(%q) = %q, want %q", subnet, got, want)
		}
	}
}
