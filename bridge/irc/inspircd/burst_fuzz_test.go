package inspircd_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/irc/inspircd"
)

// bursts are inputs from peers of both versions, besides the recordings.
func bursts() []string {
	return []string{
		":1AA BURST 1795226757\n:1AA UID 1AAAAAAAB 1795226755 alice h h i 127.0.0.1 1795226755 + :real alice\n" +
			":1AA FJOIN #ops 1795226756 +ntl 5 :o,1AAAAAAAB:0\n:1AA FMODE #ops 1795226756 +bm *!*@bad\n:1AA ENDBURST\n" +
			":1AAAAAAAB PART #ops\n:1AAAAAAAB QUIT :bye",
		":1AA UID 1AAAAAAAB 1795226755 alice h h i i 127.0.0.1 1795226755 + :real\n:1AA LMODE #ops 1795226756 b *!*@bad alice 1795226756\n" +
			":1AA SERVER b.example 2BB hidden=0 :b\n:1AA ENDBURST\n:1AA SQUIT 2BB :x\n:1AA SAVE 9GWAAAAAA 1",
		":1AA ENDBURST\n:1AA ENCAP 9GW SVSNICK Baton other 5\n:1AA ENCAP 9GW SVSPART Baton #ops\n:1AA ENCAP * SVSJOIN Baton #ops,#x\n" +
			":1AA KICK #ops 9GWAAAAAA 1 :x\n:1AA KILL 9GWAAAAAA :x\n:1AA METADATA * modules :-ircv3_ctctags\n:1AA RSQUIT 9GW",
		":1AA FJOIN #ops 5 +\n:1AA FMODE #ops 5 +o\n:1AA LMODE #ops 5 :\n:1AA IJOIN #ops\n:1AA RESYNC #ops\n:1AA INVITE 9GWAAAAAA #ops",
	}
}

// FuzzBurst has a link read any lines of its peer: none crashes it, and it writes whole lines of
// only its own server.
func FuzzBurst(f *testing.F) {
	for _, burst := range bursts() {
		f.Add(burst)
	}
	if vectors := os.Getenv("BATON_VECTORS"); vectors != "" {
		for _, name := range []string{"02-gw-links-to-inspircd3-1205.txt", "11b-gw-to-inspircd4-1206.txt"} {
			text, err := os.ReadFile(filepath.Join(vectors, "irc", name))
			if err != nil {
				f.Fatal(err)
			}
			var lines []string
			for line := range strings.Lines(string(text)) {
				if _, sent, is := strings.Cut(line, "gw < "); is {
					lines = append(lines, strings.TrimSpace(sent))
				}
			}
			f.Add(strings.ReplaceAll(strings.Join(lines, "\n"), "#room", "#ops"))
		}
	}
	f.Fuzz(func(t *testing.T, burst string) {
		for _, protocol := range []int{1205, 1206} {
			h := newHouseWith(t, testConfig("127.0.0.1:1"), tls.Certificate{})
			written := inspircd.Read(t.Context(), h.link, protocol, strings.Split(burst, "\n"))
			for line := range strings.SplitSeq(strings.TrimSuffix(written, "\r\n"), "\r\n") {
				ours := strings.HasPrefix(line, ":9GW") || strings.HasPrefix(line, "@") && strings.Contains(line, " :9GW")
				if !ours || strings.ContainsAny(line, "\r\n\x00") {
					t.Fatalf("writes %q for %q", line, burst)
				}
			}
		}
	})
}
