package bench

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/baton-gateway/baton/cmd/baton/bench/plot"
)

//go:embed page.html
var pageText string

// WritePage writes the report as one page of HTML, with its plots as SVG.
func (r *Report) WritePage(out io.Writer) error {
	t, err := template.New("page").Funcs(template.FuncMap{"figure": figure, "number": plot.Number, "svg": svg}).Parse(pageText)
	if err != nil {
		return fmt.Errorf("read page: %w", err)
	}
	return t.Execute(out, r)
}

func svg(p plot.Plot) (template.HTML, error) {
	var out strings.Builder
	err := p.WriteSVG(&out)
	return template.HTML(out.String()), err //nolint:gosec // a template escaped the texts of the plot
}
