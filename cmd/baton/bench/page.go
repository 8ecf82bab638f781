package bench

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
)

//go:embed page.html
var pageText string

// WritePage writes the report as one page of HTML, with its plots as SVG.
func (r *Report) WritePage(out io.Writer) error {
	t, err := template.New("page").Funcs(template.FuncMap{"figure": figure, "number": number}).Parse(pageText)
	if err != nil {
		return fmt.Errorf("read page: %w", err)
	}
	drawn := struct {
		*Report

		Drawings []drawing
	}{Report: r}
	for _, p := range r.Plots {
		drawn.Drawings = append(drawn.Drawings, draw(p))
	}
	return t.Execute(out, drawn)
}

// The size of a drawing in pixels, and the part inside the axes.
const (
	drawnWidth, drawnHeight       = 640, 320
	left, right, top, bottom      = 60, 620, 20, 270
	legendTop, legendStep         = 32, 16
	marksOfY                      = 4
	axisLabelGap, axisLabelOffset = 8, 18
)

// drawing is a plot in pixels.
type drawing struct {
	Plot

	Width, Height            int
	Left, Right, Top, Bottom float64
	Lines                    []drawnLine
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

// mark is a number at an axis.
type mark struct {
	At   float64
	Text string
}

// colours returns colours that also differ for readers with red-green colour blindness.
func colours() []string { return []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7"} }

// draw places the points of a plot: the x axis is logarithmic, and the y axis begins at 0.
func draw(p Plot) drawing {
	d := drawing{Plot: p, Width: drawnWidth, Height: drawnHeight, Left: left, Right: right, Top: top, Bottom: bottom}
	low, high, most := bounds(p)
	x := func(v float64) float64 {
		if high <= low {
			return left
		}
		return left + (right-left)*(math.Log(v)-math.Log(low))/(math.Log(high)-math.Log(low))
	}
	y := func(v float64) float64 { return bottom - (bottom-top)*v/most }
	for i, s := range p.Series {
		line := drawnLine{Name: s.Name, Colour: colours()[i%len(colours())], LegendY: legendTop + float64(i*legendStep)}
		for _, point := range s.Points {
			at := dot{x(point[0]), y(point[1])}
			line.Points += fmt.Sprintf("%.1f,%.1f ", at.X, at.Y)
			line.Dots = append(line.Dots, at)
		}
		d.Lines = append(d.Lines, line)
	}
	if len(p.Series) > 0 {
		for _, point := range p.Series[0].Points {
			d.XMarks = append(d.XMarks, mark{x(point[0]), number(point[0])})
		}
	}
	for i := range marksOfY + 1 {
		v := most * float64(i) / marksOfY
		d.YMarks = append(d.YMarks, mark{y(v), number(v)})
	}
	return d
}

// bounds returns the ends of the x axis, and a round number above all y.
func bounds(p Plot) (low, high, most float64) {
	low = math.Inf(1)
	for _, s := range p.Series {
		for _, point := range s.Points {
			low, high, most = min(low, point[0]), max(high, point[0]), max(most, point[1])
		}
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
