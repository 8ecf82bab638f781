package model_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/baton-gateway/baton/deploy/bench/scale/model"
)

// config is a small federation of today for some hours.
func config(t *testing.T, homes int) model.Config {
	t.Helper()
	costs, err := model.Measured()
	if err != nil {
		t.Fatal(err)
	}
	return model.Config{
		Seed: 1, Homes: homes, From: 12, Hours: 4, Costs: costs, Behavior: model.Assumed(), Protocol: model.Today(costs), HubCores: 8,
	}
}

// configs are runs of each kind: today, planned, with a home that comes back, and with one that does not.
func configs(t *testing.T) map[string]model.Config {
	t.Helper()
	planned, back, away := config(t, 12), config(t, 12), config(t, 12)
	planned.Protocol = model.Planned()
	back.Outage = &model.Outage{Home: 3, Hour: 13, Hours: 1}
	away.Outage = &model.Outage{Home: 3, Hour: 13, Hours: 100}
	return map[string]model.Config{"today": config(t, 12), "planned": planned, "comes back": back, "stays away": away}
}

func TestRunLosesNoStep(t *testing.T) {
	t.Parallel()
	for name, cfg := range configs(t) {
		r := model.Run(cfg)
		opens := r.Opens[0] + r.Opens[1] + r.Opens[2]
		if r.Remote == 0 || r.Local == 0 || opens == 0 || r.Steps != r.Local+r.Remote+opens {
			t.Errorf("%s: %d steps are %d local, %d remote and %d to anyone", name, r.Steps, r.Local, r.Remote, opens)
		}
		if r.Remote != r.Arrived+r.WaitsForHome || r.Arrived != r.Receipted {
			t.Errorf("%s: of %d remote steps %d arrived, %d wait, and %d have a receipt", name, r.Remote, r.Arrived, r.WaitsForHome, r.Receipted)
		}
		if r.Local+r.Arrived != r.Read+r.InInbox {
			t.Errorf("%s: of %d filed steps %d are read and %d in an inbox", name, r.Local+r.Arrived, r.Read, r.InInbox)
		}
		if waits := cfg.Outage != nil && cfg.Outage.Hours == 100; waits != (r.WaitsForHome > 0) {
			t.Errorf("%s: %d steps wait for their home", name, r.WaitsForHome)
		}
	}
}

// The hub counts what passes it. The homes count what they send and receive.
func TestHubCarriesTheBytesOfTheHomes(t *testing.T) {
	t.Parallel()
	for name, cfg := range configs(t) {
		r := model.Run(cfg)
		var work, all, hub model.Flow
		for _, home := range r.Homes {
			work, all = sum(work, home.Work), sum(all, home.All)
		}
		waiting := cfg.Outage != nil && cfg.Outage.Hours == 100 // their homes have sent them, the hub has not
		if work != r.HubWork && !waiting {
			t.Errorf("%s: the homes count %+v for steps, the hub %+v", name, work, r.HubWork)
		}
		hub = sum(sum(r.HubWork, r.HubBulk), r.HubIdle)
		if name == "today" && all != hub {
			t.Errorf("%s: the homes count %+v, the hub %+v", name, all, hub)
		}
	}
}

func sum(a, b model.Flow) model.Flow {
	return model.Flow{Sent: a.Sent + b.Sent, Received: a.Received + b.Received, SentBytes: a.SentBytes + b.SentBytes, ReceivedBytes: a.ReceivedBytes + b.ReceivedBytes}
}

func TestRunIsRepeatable(t *testing.T) {
	t.Parallel()
	cfg := config(t, 10)
	first, second := model.Run(cfg), model.Run(cfg)
	if !reflect.DeepEqual(first, second) {
		t.Error("two runs of one configuration differ")
	}
	cfg.Seed++
	if other := model.Run(cfg); first.Steps == other.Steps && first.HubWork == other.HubWork {
		t.Error("another seed makes the same run")
	}
}

func TestOutageDelaysSteps(t *testing.T) {
	t.Parallel()
	r := model.Run(configs(t)["comes back"])
	if r.Waited == 0 || r.Drained <= 0 || r.Drained > 600 || r.Batches == 0 || r.Batches > r.Waited {
		t.Errorf("%d steps waited, and arrived in %d batches within %.1f s", r.Waited, r.Batches, r.Drained)
	}
	if without := model.Run(config(t, 12)); without.Waited != 0 {
		t.Errorf("%d steps waited without an outage", without.Waited)
	}
}

// A search and an offer to anyone reach all homes, and each home greets each other one.
func TestCostOfAHomeGrowsWithTheFederation(t *testing.T) {
	t.Parallel()
	small, large := model.Run(config(t, 8)), model.Run(config(t, 32))
	for i, name := range []string{model.CauseWork, model.CauseOpen, model.CauseSearch, model.CauseGreetings, model.CauseClocks} {
		grown := large.Causes[i].Messages / small.Causes[i].Messages
		if small.Causes[i].Name != name || (name == model.CauseWork) != (grown < 1.5) {
			t.Errorf("%s: %.2f times as many messages of a home in a federation four times as large", name, grown)
		}
	}
	if small.HubStreams != 56 || large.HubStreams != 992 {
		t.Errorf("%v and %v streams", small.HubStreams, large.HubStreams)
	}
}

func TestHubWithoutProcessorsDoesNotKeepUp(t *testing.T) {
	t.Parallel()
	cfg := config(t, 12)
	cfg.HubCores = 1e-3
	if r := model.Run(cfg); r.Carried || r.Arrived != r.Remote {
		t.Errorf("carried: %t; %d of %d steps arrived", r.Carried, r.Arrived, r.Remote)
	}
}

func TestMostHomesFillsAResource(t *testing.T) {
	t.Parallel()
	for _, homes := range []int{2, 3, 10, 1000} {
		streams := float64(homes * (homes - 1))
		if got := model.MostHomes(streams*16, 16); got != homes {
			t.Errorf("%v streams are enough for %d homes, want %d", streams, got, homes)
		}
		if got := model.MostHomes(streams*16-1, 16); got != homes-1 {
			t.Errorf("less than %v streams are enough for %d homes", streams, got)
		}
	}
}

func TestMeasuredHasAllCosts(t *testing.T) {
	t.Parallel()
	costs, err := model.Measured()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range model.Kinds() {
		if x := costs.Exchanges[kind]; x.Question == 0 || x.QuestionRead == 0 || x.Answer == 0 || x.AnswerRead == 0 {
			t.Errorf("%s: %+v", kind, x)
		}
	}
	v := reflect.ValueOf(costs)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("no %s", v.Type().Field(i).Name)
		}
	}
	if names := slices.Compact(slices.Sorted(slices.Values(model.Kinds()))); len(names) != len(costs.Exchanges) {
		t.Errorf("%d kinds are measured, want %d", len(costs.Exchanges), len(names))
	}
}
