package inspircd_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/baton-gateway/baton/bridge/irc/inspircd"
	"github.com/baton-gateway/baton/federation"
)

// recorded returns the lines that InspIRCd sent on the first link of a transcript, after its
// SERVER.
func recorded(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	begun := false
	sent := regexp.MustCompile(`^ *[0-9.]+ gw < (.*)$`)
	for line := range strings.Lines(string(text)) {
		m := sent.FindStringSubmatch(strings.TrimRight(line, "\n"))
		switch {
		case m == nil:
		case m[1] == "<EOF>":
			return lines
		case begun:
			lines = append(lines, m[1])
		case strings.HasPrefix(m[1], "SERVER "):
			begun = true
		}
	}
	return lines
}

func TestSessionReplaysRecordedLinks(t *testing.T) {
	vectors := os.Getenv("BATON_VECTORS")
	if vectors == "" {
		t.Log("not run: BATON_VECTORS is unset")
		return
	}
	tests := []struct {
		file    string
		refused float64 // messages with a verb and no handoff id
	}{
		{"02-gw-links-to-inspircd3-1205.txt", 4},
		{"05-collisions-splits.txt", 0},
		{"07-accounts-1205.txt", 0},
	}
	for _, tt := range tests {
		t.Run("reads all of "+tt.file, func(t *testing.T) {
			h := replay(t, recorded(t, filepath.Join(vectors, "irc", tt.file)))
			metrics, err := h.registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range metrics {
				if m.GetName() == "baton_bad_input_total" && total(m) > 0 {
					t.Errorf("%v lines were not read:\n%s", total(m), h.log)
				}
			}
			code := federation.MissingRequirement.Upper()
			if n := testutil.ToFloat64(h.metrics.Refusals.WithLabelValues("spanningtree", code)); n != tt.refused {
				t.Errorf("refused %v steps, want %v", n, tt.refused)
			}
		})
	}
}

func total(m *dto.MetricFamily) (sum float64) {
	for _, each := range m.GetMetric() {
		sum += each.GetCounter().GetValue()
	}
	return sum
}

// replay links a house to a peer that says some lines, and ends when they were
// read.
func replay(t *testing.T, lines []string) house {
	t.Helper()
	cfg := testConfig("pipe.example:1")
	cfg.ServerName, cfg.Channels = "irca.lab.test", []string{"#room"}
	h := newHouse(t, cfg)
	ours, theirs := net.Pipe()
	h.link.SetDial(func(context.Context) (net.Conn, error) { return ours, nil })
	var running sync.WaitGroup
	running.Go(func() {
		s := script{conn: theirs, in: bufio.NewReader(theirs)}
		s.say("CAPAB START 1205")
		_ = s.hear()
		_, challenge, _ := strings.Cut(s.hear(), "CHALLENGE=")
		_ = s.hear()
		s.say("CAPAB CAPABILITIES :CHALLENGE=x CASEMAPPING=rfc1459", "CAPAB END")
		_ = s.hear()
		s.say("SERVER irca.lab.test AUTH:" + inspircd.Prove("out-secret", challenge) + " 0 1AA :Lab server irca")
		running.Go(func() { _, _ = io.Copy(io.Discard, s.in) })
		s.say(lines...)
		_ = theirs.Close()
	})
	if err := h.link.Run(t.Context(), func() {}); err == nil {
		t.Error("no error at the end")
	}
	running.Wait()
	return h
}
