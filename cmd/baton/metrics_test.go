package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	main "github.com/baton-gateway/baton/cmd/baton"
)

// description matches the text of a Desc.
var description = regexp.MustCompile(`^Desc\{fqName: "(baton_[a-z_]+)", help: "(.*)", unit: ".*", constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// metricsFile has each metric of the gateway. Dashboards and alerts of operators depend on the names
// and labels: a change of a line belongs into CHANGELOG.md.
const metricsFile = "testdata/metrics.txt"

func TestMetricsKeepNamesAndLabels(t *testing.T) {
	t.Parallel()
	descs, err := main.MetricDescs(t.Context(), newHouse(t).config)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, desc := range descs {
		match := description.FindStringSubmatch(desc.String())
		if match == nil {
			continue // of the Go runtime or of the process
		}
		labels := match[4]
		if match[3] != "" {
			labels = "version,revision" // of what was built: the values differ
		}
		lines = append(lines, fmt.Sprintf("%s{%s} %s\n", match[1], labels, match[2]))
	}
	slices.Sort(lines)
	got := strings.Join(lines, "")
	want, err := os.ReadFile(metricsFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s\nIt would be:\n%s", filepath.Base(metricsFile), diff, got)
	}
}

// Alerts and dashboards read metrics that exist, and each alert has its paragraph of the runbook.
func TestMetricsOfAlertsAndDashboardExist(t *testing.T) {
	t.Parallel()
	kept, err := os.ReadFile(metricsFile)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for line := range strings.Lines(string(kept)) {
		name, _, _ := strings.Cut(line, "{")
		known[name] = true
	}
	var read strings.Builder
	for _, path := range []string{"deploy/prometheus/alerts.yml", "deploy/grafana/baton.json"} {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\bbaton_[a-z_]+`).FindAllString(string(text), -1) {
			whole := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
			if !known[name] && !known[whole] {
				t.Errorf("%s reads %s, which does not exist", path, name)
			}
		}
		read.Write(text)
	}
	alerts := read.String()
	anchors := readDocument(t, "deploy/prometheus/README.md").anchors()
	names := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(alerts, -1)
	if len(names) == 0 {
		t.Error("there are no alerts")
	}
	for _, match := range names {
		anchor := strings.ToLower(match[1])
		if !slices.Contains(anchors, anchor) || !strings.Contains(alerts, "README.md#"+anchor+"\n") {
			t.Errorf("%s has no paragraph in the runbook", match[1])
		}
	}
}
