package mcp_test

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/federation"
)

// BenchmarkWake measures the time from the return of the call that files an offer to the answer of
// inbox_wait over HTTP, in the newest revision.
func BenchmarkWake(b *testing.B) {
	w := newWorld(b)
	eliza, scout := w.agent(b, "eliza"), w.agent(b, "scout")
	session := scout.connect(b, "2026-07-28", nil)
	var took []time.Duration
	for b.Loop() {
		answered := make(chan string, 1)
		go func() {
			var page struct {
				Next string `json:"next_cursor"`
			}
			call(b, session, "inbox_wait", map[string]any{"seconds": 60}).ok().into(&page)
			answered <- page.Next
		}()
		for w.Woken.Waiting() == 0 {
			runtime.Gosched()
		}
		eliza.offer(b, scout.did, "Cite")
		filed := time.Now()
		cursor := <-answered
		took = append(took, time.Since(filed))
		if err := scout.account().Acknowledge(b.Context(), "mcp", federation.Cursor(cursor)); err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
}

// BenchmarkWaiting measures the memory of the gateway and of the clients together for each of 1,000
// clients that wait over HTTP: all are in this process.
func BenchmarkWaiting(b *testing.B) {
	const clients = 1000
	w := newWorld(b)
	eliza := w.agent(b, "eliza")
	for b.Loop() {
		before := inUse()
		answered := make(chan struct{}, clients)
		var all []*agent
		for i := range clients {
			a := w.agent(b, "scout "+string(rune('a'+i%26))+time.Duration(i).String())
			all = append(all, a)
			session := a.connect(b, "2026-07-28", nil)
			go func() {
				call(b, session, "inbox_wait", map[string]any{"seconds": 600}).ok()
				answered <- struct{}{}
			}()
		}
		for w.Woken.Waiting() < clients {
			time.Sleep(time.Millisecond)
		}
		b.ReportMetric(float64(inUse()-before)/clients/1024, "KiB/client")
		for _, a := range all {
			eliza.offer(b, a.did, "Cite")
		}
		for range clients {
			<-answered
		}
		for _, a := range all {
			page, err := a.account().Inbox(b.Context(), participant.InboxQuery{Limit: 1, Device: "mcp"})
			if err != nil {
				b.Fatal(err)
			}
			if err := a.account().Acknowledge(b.Context(), "mcp", page.Next); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// inUse returns the memory of the heap and of stacks.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
