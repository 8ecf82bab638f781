package plot_test

import (
	"strings"
	"testing"

	"github.com/baton-gateway/baton/cmd/baton/bench/plot"
)

// Each power of ten takes as much room as the next one, on both axes.
func TestLogYSpacesPowersOfTen(t *testing.T) {
	t.Parallel()
	p := plot.Plot{Title: "Cost & size", X: "homes", Y: "bytes", LogY: true, Series: []plot.Series{{Name: "today"}}}
	p.Add(0, 10, 3)
	p.Add(0, 100, 10)
	p.Add(0, 1000, 1000)
	var out strings.Builder
	if err := p.WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	// From 1 at the bottom, 270, to 1000 at the top, 20.
	for _, want := range []string{`points="60.0,230.2 340.0,186.7 620.0,20.0 "`, `y="270" dx="-6" dy="4" text-anchor="end">1<`, `text-anchor="end">1000<`, "<title>Cost &amp; size</title>"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the drawing has no %s:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), ">10000<") {
		t.Error("the axis goes on above all points")
	}
}

func TestLinearXSpacesTimesEvenly(t *testing.T) {
	t.Parallel()
	p := plot.Plot{Title: "Faults", X: "seconds", Y: "offers", LinearX: true, Series: []plot.Series{{Name: "offers"}}, Bands: [][2]float64{{50, 75}}}
	p.Add(0, 0, 0)
	p.Add(0, 50, 2)
	p.Add(0, 100, 4)
	var out strings.Builder
	if err := p.WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`points="60.0,270.0 340.0,145.0 620.0,20.0 "`, `<text x="200" y="270" dy="18" text-anchor="middle">25</text>`, `<rect x="340.0" y="20" width="140.0" height="250" fill="#f3c6b4"/>`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the drawing has no %s:\n%s", want, out.String())
		}
	}
}
