// Package plot draws diagrams as SVG.
package plot

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
)

//go:embed plot.svg.tmpl
var text string

// Plot is one diagram.
type Plot struct {
	Title   string       `json:"title"`
	X       string       `json:"x"` // logarithmic, unless LinearX is set
	Y       string       `json:"y"` // from 0, unless LogY is set
	LinearX bool         `json:"linear_x,omitempty"`
	LogY    bool         `json:"log_y,omitempty"`
	Series  []Series     `json:"series"`
	Bands   [][2]float64 `json:"bands,omitempty"` // parts of the x axis that are marked
}

// Series is one line of a diagram.
type Series struct {
	Name   string       `json:"name"`
	Points [][2]float64 `json:"points"`
}

// Add adds a point to a series.
func (p *Plot) Add(series int, x, y float64) {
	p.Series[series].Points = append(p.Series[series].Points, [2]float64{x, y})
}

// WriteSVG draws the plot.
func (p *Plot) WriteSVG(out io.Writer) error {
	t, err := template.New("plot").Parse(text)
	if err != nil {
		return fmt.Errorf("read drawing: %w", err)
	}
	return t.Execute(out, draw(*p))
}

// Number returns a value with three significant digits.
func Number(value float64) string {
	if value >= 100 {
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	return strconv.FormatFloat(value, 'g', 3, 64)
}

// The size of a drawing in pixels, and the area inside the axes.
const (
	drawnWidth, drawnHeight  = 640, 320
	left, right, top, bottom = 60, 620, 20, 270
	legendTop, legendStep    = 32, 16
	marksOfAxis              = 4
	mostDots                 = 40 // of a series, so that they are not too close together
)

type drawing struct {
	Plot

	Width, Height            int
	Left, Right, Top, Bottom float64
	BandHeight               float64
	Lines                    []drawnLine
	Drawn                    []band
	XMarks, YMarks           []mark
}

type drawnLine struct {
	Name    string
	Colour  string
	Points  string
	Dots    []dot
	LegendY float64
}

type dot struct{ X, Y float64 }

type band struct{ X, Width float64 }

type mark struct {
	At   float64
	Text string
}

// The colours are distinguishable with red-green colour blindness.
func colours() []string {
	return []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#444"}
}

func draw(p Plot) drawing {
	d := drawing{Plot: p, Width: drawnWidth, Height: drawnHeight, Left: left, Right: right, Top: top, Bottom: bottom, BandHeight: bottom - top}
	low, high, most := bounds(p)
	x := func(v float64) float64 {
		switch {
		case high <= low:
			return left
		case p.LinearX:
			return left + (right-left)*(v-low)/(high-low)
		}
		return left + (right-left)*(math.Log(v)-math.Log(low))/(math.Log(high)-math.Log(low))
	}
	y := func(v float64) float64 { return bottom - (bottom-top)*v/most }
	marks := steps(most)
	if p.LogY {
		var least float64
		least, marks = decades(p)
		y = func(v float64) float64 {
			return bottom - (bottom-top)*math.Log(max(v, least)/least)/math.Log(marks[len(marks)-1]/least)
		}
	}
	for i, s := range p.Series {
		line := drawnLine{Name: s.Name, Colour: colours()[i%len(colours())], LegendY: legendTop + float64(i*legendStep)}
		for _, point := range s.Points {
			at := dot{x(point[0]), y(point[1])}
			line.Points += fmt.Sprintf("%.1f,%.1f ", at.X, at.Y)
			if len(s.Points) <= mostDots {
				line.Dots = append(line.Dots, at)
			}
		}
		d.Lines = append(d.Lines, line)
	}
	for _, ends := range p.Bands {
		d.Drawn = append(d.Drawn, band{x(ends[0]), x(ends[1]) - x(ends[0])})
	}
	switch {
	case p.LinearX:
		for _, v := range steps(high) {
			d.XMarks = append(d.XMarks, mark{x(v), Number(v)})
		}
	case len(p.Series) > 0:
		for _, point := range p.Series[0].Points {
			d.XMarks = append(d.XMarks, mark{x(point[0]), Number(point[0])})
		}
	}
	for _, v := range marks {
		d.YMarks = append(d.YMarks, mark{y(v), Number(v)})
	}
	return d
}

func steps(most float64) []float64 {
	var marks []float64
	for i := range marksOfAxis + 1 {
		marks = append(marks, most*float64(i)/marksOfAxis)
	}
	return marks
}

// decades returns the lower end of a logarithmic y axis, and the powers of ten up to the first
// above all y.
func decades(p Plot) (least float64, marks []float64) {
	least, most := math.Inf(1), 0.0
	for _, s := range p.Series {
		for _, point := range s.Points {
			most = max(most, point[1])
			if point[1] > 0 {
				least = min(least, point[1])
			}
		}
	}
	if most <= 0 {
		return 1, []float64{1, 10}
	}
	low := math.Floor(math.Log10(least))
	for power := low; power == low || math.Pow(10, power-1) < most; power++ {
		marks = append(marks, math.Pow(10, power))
	}
	return math.Pow(10, low), marks
}

// bounds returns the ends of the x axis, and a round number above all y.
func bounds(p Plot) (low, high, most float64) {
	low = math.Inf(1)
	for _, s := range p.Series {
		for _, point := range s.Points {
			low, high, most = min(low, point[0]), max(high, point[0]), max(most, point[1])
		}
	}
	for _, ends := range p.Bands {
		low, high = min(low, ends[0]), max(high, ends[1])
	}
	if most <= 0 {
		return low, high, 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(most)))
	for _, step := range []float64{1, 2, 4, 6, 8, 10} {
		if most <= step*unit {
			return low, high, step * unit
		}
	}
	return low, high, most
}
