package render

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/admin"
)

// NamedValue is a value with the name displayed for it.
type NamedValue struct {
	Name string
	Value
}

// StatusDetails returns the values of an overview, without its lists.
func StatusDetails(s admin.Status) []NamedValue {
	ready := State("ready")
	if !s.Ready {
		ready = State("not-ready")
		ready.Text = "not ready: " + strings.Join(s.Reasons, "; ")
	}
	working := 0
	var down []string
	for _, l := range s.Links {
		if l.Works() {
			working++
		} else {
			down = append(down, l.Name)
		}
	}
	links := fmt.Sprintf("%d of %d work", working, len(s.Links))
	if len(down) > 0 {
		links += "; not " + strings.Join(down, ", ")
	}
	waiting := Value{Text: strconv.Itoa(s.Waiting), Link: "feeds"}
	if !s.Oldest.IsZero() {
		waiting.Text += ", the oldest since"
		waiting.At = s.Oldest
		waiting.Terminal = fmt.Sprintf("%d, the oldest since %s", s.Waiting, s.Oldest)
	}
	all := []NamedValue{
		{"State", ready},
		{"Version", Long(s.Version + ", revision " + s.Revision)},
		{"Up since", Time(s.Started)},
		{"Links", Value{Text: links, Link: "links"}},
		{"Waiting deliveries", waiting},
		{"Dead letters", Value{Text: strconv.Itoa(s.Dead), Link: "dead"}},
	}
	for _, rate := range s.Rates {
		all = append(all, NamedValue{"Steps in " + rate.Over, Text(fmt.Sprintf("%d, %d refused, %s", rate.Steps, rate.Refused, Bytes(rate.Bytes).Text))})
	}
	for _, check := range []string{"disk", "clock", "certificate"} {
		v := Text("not checked yet")
		if i := slices.IndexFunc(s.Checks, func(d admin.Diagnosis) bool { return d.Check == check }); i >= 0 {
			v = Long(s.Checks[i].Detail)
		}
		all = append(all, NamedValue{strings.ToUpper(check[:1]) + check[1:], v})
	}
	return append(all, NamedValue{"Checked", Time(s.Examined)})
}

// StatusWarnings returns the checks of an overview that need action.
func StatusWarnings(s admin.Status) []admin.Diagnosis {
	return slices.DeleteFunc(slices.Clone(s.Checks), func(d admin.Diagnosis) bool { return d.State == admin.DiagnosisOK })
}

// Hour sums the samples of an hour.
type Hour struct {
	Start               time.Time
	Steps               int64
	Waiting, Dead, Down int // maximum of each
	Disk                int // minimum
}

// HoursOf returns the hours of samples, newest first.
func HoursOf(samples []admin.Sample) []Hour {
	var hours []Hour
	for _, s := range samples {
		start := time.Time(s.Time).UTC().Truncate(time.Hour)
		if n := len(hours); n == 0 || !hours[n-1].Start.Equal(start) {
			hours = append(hours, Hour{Start: start, Disk: s.Disk})
		}
		h := &hours[len(hours)-1]
		h.Steps += s.Steps
		h.Waiting, h.Dead, h.Down, h.Disk = max(h.Waiting, s.Waiting), max(h.Dead, s.Dead), max(h.Down, s.Down), min(h.Disk, s.Disk)
	}
	slices.Reverse(hours)
	return hours
}

// Status writes an overview, with a line for each hour of the last day.
func Status(out io.Writer, s admin.Status) error {
	now := time.Now()
	var d details
	for _, each := range StatusDetails(s) {
		d.add(strings.ToLower(each.Name), each.terminal(now))
	}
	if err := d.print(out); err != nil {
		return err
	}
	if len(s.Feeds) > 0 {
		fmt.Fprintln(out)
		if err := Shapes.Print(out, true, now, s.Feeds...); err != nil {
			return err
		}
	}
	if warnings := StatusWarnings(s); len(warnings) > 0 {
		fmt.Fprintln(out)
		if err := Diagnoses(out, warnings); err != nil {
			return err
		}
	}
	if len(s.Samples) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	return Hours.Print(out, true, now, HoursOf(s.Samples)...)
}
