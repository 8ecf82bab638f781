//go:build long

package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// soakVar is the environment variable that says how long the soak lasts. Ten minutes are
//
//	BATON_SOAK=10m go test -tags long ./cmd/baton -run=TestASoak -count=1 -v -timeout=20m
const soakVar = "BATON_SOAK"

const (
	soakTime    = 20 * time.Second // without the variable
	soakPairs   = 8                // pairs of agents, each with one handoff at a time
	soakEach    = 10 * time.Second // between two samples, at most
	soakSamples = 20               // at least
	soakFull    = 3 * time.Second  // of full load, to learn how much half of it is
	soakWatch   = 25               // handoffs after which an offeree watches its inbox for one handoff
)

// Half of the load that a gateway can bear goes on and on, with streams that come and go. Memory,
// goroutines and open files are the same in the last third of the time as in the first one. A third
// is compared by its median, and may have more by the bounds of [soakBounds]: caches are filled and
// memory is given back late.
func TestSoakAtHalfLoadLeavesNothingBehind(t *testing.T) {
	lasts := soakTime
	if text := os.Getenv(soakVar); text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", soakVar, err)
		}
	}
	url, admin, _ := benchGateway(t)
	pairs := make([]*soakPair, soakPairs)
	for i := range pairs {
		pairs[i] = newSoakPair(t, url)
	}
	begun := time.Now()
	steps := bear(t, pairs, soakFull, nil)
	full := float64(steps) / time.Since(begun).Seconds()
	pace := time.NewTicker(time.Duration(float64(time.Second) * stepsOfSoak / (full / 2)))
	defer pace.Stop()
	var load sync.WaitGroup
	load.Go(func() { steps = bear(t, pairs, lasts, pace.C) })
	defer load.Wait()
	samples := sampleSoak(t, admin, lasts)
	load.Wait()
	t.Logf("%.0f steps a second at full load, %.0f in the soak of %s", full, float64(steps)/lasts.Seconds(), lasts)
	if len(samples) < soakSamples/2 {
		t.Fatalf("%d samples, want %d", len(samples), soakSamples)
	}
	third := len(samples) / 3
	for _, bound := range soakBounds() {
		first, last := medianOf(samples[:third], bound.name), medianOf(samples[len(samples)-third:], bound.name)
		t.Logf("%s: %.0f in the first third, %.0f in the last one", bound.name, first, last)
		if last > first*(1+bound.share)+bound.more {
			t.Errorf("%s grows from %.0f to %.0f, want at most %.0f more than %.2f times as much", bound.name, first, last, bound.more, 1+bound.share)
		}
	}
}

// stepsOfSoak is how many steps a handoff of the soak has.
const stepsOfSoak = 3

// soakBound is how much more of something there may be after a while.
type soakBound struct {
	name        string
	share, more float64
}

func soakBounds() []soakBound {
	return []soakBound{
		{name: "resident KiB", share: 0.25, more: 48 << 10},
		{name: "heap KiB", share: 0.25, more: 16 << 10},
		{name: "goroutines", more: 2 * soakPairs},
		{name: "open files", more: 2 * soakPairs},
	}
}

// soakSample is a sample of a gateway, by the name of its bound.
type soakSample map[string]float64

func medianOf(samples []soakSample, name string) float64 {
	var all []float64
	for _, s := range samples {
		all = append(all, s[name])
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// sampleSoak takes samples until the soak is over.
func sampleSoak(t *testing.T, admin string, lasts time.Duration) (samples []soakSample) {
	t.Helper()
	tick := time.NewTicker(min(soakEach, lasts/soakSamples))
	defer tick.Stop()
	for begun := time.Now(); time.Since(begun) < lasts; {
		<-tick.C
		s := soakSample{"heap KiB": liveKiB(t, admin)}
		metrics := metricsOf(t, admin)
		for name, metric := range map[string]string{"goroutines": "go_goroutines", "open files": "process_open_fds", "resident KiB": "process_resident_memory_bytes"} {
			_, after, _ := strings.Cut(metrics, "\n"+metric+" ")
			var value float64
			if _, err := fmt.Sscanf(after, "%g", &value); err != nil {
				t.Fatalf("the gateway has no metric %s: %v", metric, err)
			}
			s[name] = value
		}
		s["resident KiB"] /= 1024
		samples = append(samples, s)
	}
	return samples
}

func metricsOf(t *testing.T, admin string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, admin+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// bear has pairs complete handoffs for a while, one at each tick of a pace, or as fast as they can,
// and returns how many steps they took.
func bear(t *testing.T, pairs []*soakPair, lasts time.Duration, pace <-chan time.Time) int64 {
	t.Helper()
	over := make(chan struct{})
	time.AfterFunc(lasts, func() { close(over) })
	var steps atomic.Int64
	var all sync.WaitGroup
	for _, p := range pairs {
		all.Go(func() {
			for goesOn(pace, over) {
				if err := p.complete(t); err != nil {
					t.Errorf("complete a handoff: %v", err)
					return
				}
				steps.Add(stepsOfSoak)
			}
		})
	}
	all.Wait()
	return steps.Load()
}

// goesOn waits for the next tick of a pace, if there is one, and reports whether it is not over yet.
func goesOn(pace <-chan time.Time, over <-chan struct{}) bool {
	if pace != nil {
		select {
		case <-pace:
		case <-over:
		}
	}
	select {
	case <-over:
		return false
	default:
		return true
	}
}

// soakPair is two agents, and their connections.
type soakPair struct {
	eliza, scholar *caller
	client         *http.Client
	cursor         string // of the inbox of scholar
	completed      int
}

func newSoakPair(t *testing.T, url string) *soakPair {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &soakPair{eliza: logIn(t, url), scholar: logIn(t, url), client: &http.Client{Transport: transport}}
}

// complete has one agent offer something that the other one reads in its inbox, accepts and
// completes.
func (p *soakPair) complete(t *testing.T) error {
	t.Helper()
	p.completed++
	if p.completed%soakWatch == 0 {
		hangUp, err := p.watch(t)
		if err != nil {
			return err
		}
		defer hangUp()
	}
	var at struct{ ID string }
	err := p.ask(p.eliza.request(t, http.MethodPost, "handoffs", map[string]any{"to": p.scholar.did, "title": "Cite three sources on X"}), &at)
	if err != nil {
		return err
	}
	var page struct {
		Items      []arrived
		NextCursor string `json:"next_cursor"`
	}
	if err := p.ask(p.scholar.request(t, http.MethodGet, "inbox?wait=10s&cursor="+p.cursor, nil), &page); err != nil {
		return err
	}
	p.cursor = page.NextCursor
	for _, verb := range []string{"accept", "complete"} {
		if err := p.ask(p.scholar.request(t, http.MethodPost, "handoffs/"+at.ID+"/"+verb, nil), nil); err != nil {
			return err
		}
	}
	return nil
}

// watch opens the stream of scholar's inbox and reads its first line.
func (p *soakPair) watch(t *testing.T) (hangUp func(), err error) {
	t.Helper()
	response, err := p.client.Do(p.scholar.request(t, http.MethodGet, "inbox/stream?cursor="+p.cursor, nil))
	if err != nil {
		return nil, err
	}
	hangUp = func() { _ = response.Body.Close() }
	if _, err := bufio.NewReader(response.Body).ReadString('\n'); err != nil || response.StatusCode != http.StatusOK {
		hangUp()
		return nil, fmt.Errorf("watch: %s, %w", response.Status, err)
	}
	return hangUp, nil
}

// ask sends a request and reads the answer; any but 2xx is an error.
func (p *soakPair) ask(request *http.Request, into any) error {
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return err
	case response.StatusCode >= http.StatusMultipleChoices:
		return fmt.Errorf("%s %s: %s %s", request.Method, request.URL.Path, response.Status, text)
	case into == nil:
		return nil
	}
	return json.Unmarshal(text, into)
}
