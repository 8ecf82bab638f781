package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
)

// result is the result of one case. The times are of received lines.
type result struct {
	Way        string   `json:"way"`
	Kind       string   `json:"kind"`
	Rate       int      `json:"rate"`
	Killed     string   `json:"killed"`
	Sent       int      `json:"sent"`
	Unread     int      `json:"unread"` // refused, or sent while no bridge in the channel could read it
	Lost       int      `json:"lost"`
	ReadLost   int      `json:"read_and_lost"` // lost messages that the bridge certainly read
	Repeated   int      `json:"repeated"`
	SameID     int      `json:"repeated_same_msgid"`
	OutOfOrder int      `json:"out_of_order"`
	P50        *float64 `json:"p50_ms"` // null if nothing arrived
	P99        *float64 `json:"p99_ms"`
	Recovered  *float64 `json:"recovered_ms"` // from the restart until the arrival of a line sent after it; null if none arrived
}

type notRun struct {
	Way    string `json:"way"`
	Reason string `json:"reason"`
}

type report struct {
	Results []result `json:"results"`
	NotRun  []notRun `json:"not_run"`
}

func (r *report) print(to io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(to)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	if err := r.table(to); err != nil {
		return err
	}
	for _, n := range r.NotRun {
		if _, err := fmt.Fprintf(to, "not run: %s: %s\n", n.Way, n.Reason); err != nil {
			return err
		}
	}
	return nil
}

func (r *report) table(to io.Writer) error {
	if len(r.Results) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(to, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "| way\t| sent\t| kill -9\t| unread\t| lost\t| repeated\t| out of order\t| p50\t| p99\t| recovered\t|")
	fmt.Fprintln(w, "|---\t|---\t|---\t|---\t|---\t|---\t|---\t|---\t|---\t|---\t|")
	for _, m := range r.Results {
		killed := m.Killed
		if killed == nothing {
			killed = "no"
		}
		fmt.Fprintf(w, "| %s\t| %d %s, %d/s\t| %s\t| %d\t| %d\t| %s\t| %d\t| %s\t| %s\t| %s\t|\n",
			m.Way, m.Sent, m.Kind, m.Rate, killed, m.Unread, m.Lost, m.repeats(), m.OutOfOrder, shown(m.P50), shown(m.P99), shown(m.Recovered))
	}
	return w.Flush()
}

// repeats returns the number of repeated lines, and the number of these with another message ID.
func (m result) repeats() string {
	if others := m.Repeated - m.SameID; others > 0 {
		return fmt.Sprintf("%d (%d with a new id)", m.Repeated, others)
	}
	return strconv.Itoa(m.Repeated)
}

func shown(ms *float64) string {
	switch {
	case ms == nil:
		return "-"
	case *ms >= 1000:
		return fmt.Sprintf("%.1f s", *ms/1000)
	}
	return fmt.Sprintf("%.1f ms", *ms)
}

// verdict returns an error if Baton lost a message or changed the order of lines. Offers have no
// order, because each is a separate handoff.
func (r *report) verdict() error {
	for _, m := range r.Results {
		if m.Way == "baton" && (m.ReadLost > 0 || m.Kind == text && m.OutOfOrder > 0) {
			return fmt.Errorf("baton lost %d of %d %s, brought %d out of order, killed: %q", m.ReadLost, m.Sent, m.Kind, m.OutOfOrder, m.Killed)
		}
	}
	return nil
}
