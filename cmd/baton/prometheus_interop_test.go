//go:build interop

package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/baton-gateway/baton/federation/federationtest"
)

// silentHere is the metrics without a series in the homes of this test, each with the reason.
var silentHere = map[string]string{
	"baton_blocked_total":                        "no source is blocked",
	"baton_certificate_expiry_timestamp_seconds": "no gateway has a certificate",
	"baton_connections_closed_total":             "no listener reached a limit",
	"baton_dead":                                 "no delivery was given up",
	"baton_deferred":                             "no step waits for a key",
	"baton_held_seconds":                         "no operator holds a destination",
	"baton_link_resent_total":                    "no peer dropped a message",
	"baton_rate_limited_total":                   "no limit was reached",
	"baton_relay_attempts_total":                 "no other registry is linked",
	"baton_relay_dead":                           "no other registry is linked",
	"baton_relay_oldest_seconds":                 "no other registry is linked",
	"baton_relay_rows":                           "no other registry is linked",
}

// metricName matches the names of metrics in a query.
var metricName = regexp.MustCompile(`\b(?:baton|process|go)_[a-z_]+\b|\bup\b`)

// Each query of the dashboard has data in a real Prometheus that scrapes three homes with a handoff
// between them, or reads a metric silent for a reason named by silentHere. Each alert is evaluated
// there, and none fires.
func TestPrometheusHasDataForDashboardAndAlerts(t *testing.T) {
	t.Parallel()
	tr := newTriple(t)
	p := startPrometheus(t, tr.all)
	await(t, "the first scrape", func() bool { return len(p.query(t, "baton_build_info")) == len(tr.all) })
	tr.handOff(t)
	tr.refuse(t)
	await(t, "the scrape of a delivery", func() bool { return len(p.query(t, "baton_deliver_seconds_count")) > 1 })
	tr.claim(t, tr.irc, rfcTags) // so that the counters rise between two scrapes
	tr.refuse(t)
	for _, q := range dashboardQueries(t) {
		if !readsNothing(q) {
			await(t, "data for "+q, func() bool { return slices.ContainsFunc(p.query(t, q), isNumber) })
		}
	}
	p.checkRules(t)
}

// refuse has a home refuse a step and a body.
func (tr *triple) refuse(t *testing.T) {
	t.Helper()
	step := rfcTags.step(tr.alice.person, channel, "accept", federationtest.ID(7).String(), nil)
	send(t, tr.alice.IRCClient, step.tags)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, tr.irc.url()+"/fed/v1/events", strings.NewReader("{"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
}

// readsNothing reports whether a query reads a metric of silentHere.
func readsNothing(query string) bool {
	return slices.ContainsFunc(metricName.FindAllString(query, -1), func(name string) bool { return silentHere[name] != "" })
}

// isNumber reports whether a value of Prometheus is a number.
func isNumber(value float64) bool { return !math.IsNaN(value) && !math.IsInf(value, 0) }

// dashboardQueries returns the queries of the dashboard, with its variables replaced.
func dashboardQueries(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy", "grafana", "baton.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$home", ".*", "$__rate_interval", "1m", "$__range", "5m")
	var queries []string
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries = append(queries, variables.Replace(target.Expr))
		}
	}
	if len(queries) < 30 {
		t.Fatalf("the dashboard has %d queries", len(queries))
	}
	return queries
}

type promServer struct{ address string }

// startPrometheus starts one that scrapes homes each second, with the rules of deploy.
func startPrometheus(t *testing.T, homes []neighbour) promServer {
	t.Helper()
	dir := t.TempDir()
	rules, err := filepath.Abs(filepath.Join(root, "deploy", "prometheus", "alerts.yml"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "deploy", "prometheus", "prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(text), "      - targets:")
	config := strings.NewReplacer("15s", "1s", "[alerts.yml]", "["+rules+"]").Replace(head)
	for _, home := range homes {
		config += fmt.Sprintf("      - {targets: [%q], labels: {home: %q}}\n", home.admin, home.name)
	}
	path := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p := promServer{federationtest.FreeAddr(t)}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "prometheus",
		"--config.file="+path, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.address)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
	})
	await(t, "Prometheus to be ready", func() bool {
		status, _ := get(t, "http://"+p.address+"/-/ready")
		return status == http.StatusOK
	})
	return p
}

func (p promServer) ask(t *testing.T, path string, into any) {
	t.Helper()
	status, body := get(t, "http://"+p.address+path)
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", path, status, body)
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// query returns the values of a query now.
func (p promServer) query(t *testing.T, query string) []float64 {
	t.Helper()
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	p.ask(t, "/api/v1/query?query="+url.QueryEscape(query), &answer)
	var values []float64
	for _, series := range answer.Data.Result {
		text, _ := series.Value[1].(string)
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		values = append(values, value)
	}
	return values
}

// checkRules waits until each alert was evaluated, and checks that its metrics
// exist and that it does not fire.
func (p promServer) checkRules(t *testing.T) {
	t.Helper()
	type rule struct{ Name, Query, State, Health, LastError string }
	alerts := map[string]rule{}
	await(t, "the rules to be evaluated", func() bool {
		var answer struct {
			Data struct{ Groups []struct{ Rules []rule } }
		}
		p.ask(t, "/api/v1/rules", &answer)
		for _, group := range answer.Data.Groups {
			for _, each := range group.Rules {
				alerts[each.Name] = each
			}
		}
		return len(alerts) > 0 && !slices.ContainsFunc(slices.Collect(maps.Values(alerts)), func(r rule) bool { return r.Health == "unknown" })
	})
	for name, alert := range alerts {
		if alert.Health != "ok" || alert.State == "firing" {
			t.Errorf("%s is %s and %s: %s", name, alert.Health, alert.State, alert.LastError)
		}
		for _, metric := range metricName.FindAllString(alert.Query, -1) {
			if silentHere[metric] == "" && len(p.query(t, metric)) == 0 {
				t.Errorf("%s reads %s, which has no series", name, metric)
			}
		}
	}
}
