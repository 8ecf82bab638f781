package model

import (
	"math"
	"slices"
)

// Result is the outcome of one run. Daily figures need a run of 24 hours.
type Result struct {
	Config Config

	Events int64
	Agents int
	// Each step is local, remote, or of an offer to anyone. Each remote step arrived or waits. Each
	// step with one recipient is read or in an inbox.
	Steps, Local, Remote            int64
	Opens                           [3]int64 // offers, claims and completions
	Arrived, Receipted, Read        int64
	InInbox, WaitsForHome, Searches int64

	Causes       []Cause   // of the mean home
	Homes        []HomeUse // in the order of their size
	HubWork      Flow      // of all steps with one recipient
	HubBulk      Flow      // of all searches and offers to anyone
	HubIdle      Flow      // of all idle pairs of homes, and of the comparisons of their histories
	Online       Histogram // from one home to another, until it is read
	Offline      Histogram // likewise, for absent recipients
	LocalOnline  Histogram
	LocalOffline Histogram
	Relay        Histogram // until it is on the disk of the other home

	HubStreams, HubReserved      float64 // number of streams, and reserved disk bytes
	HubMemory, HubConfig         float64 // bytes
	HubIdleCores, HubBusyCores   float64 // processors when idle, and in the busiest minute
	HubIdleMessages              float64 // greetings and comparisons of clocks per second
	HubPeakMessages, HubPeakRate float64 // stored messages and bytes per second in the busiest minute
	HubOperations                float64 // requests, heartbeats and ends of requests of idle streams per second
	HubStart                     float64 // seconds until all streams of a new hub carry messages
	Carried                      bool    // the hub has enough processors for the load

	// Of an outage.
	Waited, Stale, Batches int64   // steps, greetings, and batches of steps
	Drained                float64 // seconds until all waiting steps have arrived

	minutes []Flow
}

// Cause is the traffic of the mean home for one reason.
type Cause struct {
	Name     string
	Messages float64
	Bytes    float64
}

// HomeUse is the use of one home.
type HomeUse struct {
	Agents int
	Work   Flow  // steps and text with the hub
	All    Flow  // with the hub
	Shared int64 // handoffs with other homes
	Rows   Stored
	CPU    float64 // mean processors
}

// The causes of traffic.
const (
	CauseWork      = "steps and messages"
	CauseOpen      = "offers to anyone"
	CauseSearch    = "search for mailboxes"
	CauseGreetings = "greetings"
	CauseClocks    = "comparison of clocks"
	CauseHistories = "comparison of histories"
	CauseStreams   = "requests of idle streams"
)

func newResult(cfg Config) Result {
	c, p := cfg.Costs, cfg.Protocol
	pairs := float64(cfg.Homes) * float64(cfg.Homes-1)
	streams := p.streams(cfg.Homes)
	r := Result{
		Config: cfg, Agents: cfg.Homes * cfg.Behavior.AgentsPerHome, minutes: make([]Flow, cfg.Hours*60),
		HubStreams: streams, HubReserved: streams * StreamBytes, HubMemory: streams * c.HubStreamBytes, HubConfig: streams * c.HubPairConfig,
		HubIdleMessages: 2 * pairs * (p.Greetings + p.Profiles), HubOperations: streams * (2*c.Pulls + c.Heartbeats), HubStart: streams * c.HubStreamStart,
	}
	r.HubIdleCores = streams*c.HubStreamCPU() + r.HubIdleMessages/2*c.HubExchangeCPU
	return r
}

func (r *run) idle() (greetings, clocks, streams Flow) {
	c, p := r.cfg.Costs, r.cfg.Protocol
	time := float64(r.cfg.Hours) * 3600
	exchanges := func(rate float64, x Exchange) Flow {
		return r.both(x).times(int64(rate * time))
	}
	share := p.streams(r.cfg.Homes) / float64(r.cfg.Homes) / float64(r.cfg.Homes-1)
	requests := int64(c.Pulls * time * share)
	return exchanges(p.Greetings, c.Exchanges[Greeting]), exchanges(p.Profiles, c.Exchanges[Profile]), Flow{
		SentBytes:     requests * int64(c.Control.Pull),
		ReceivedBytes: requests*int64(c.Control.Expired) + int64(c.Heartbeats*time*share)*int64(c.Control.Heartbeat),
	}
}

// The bounds of a comparison in federation/relay: the handoffs of compareBack days, maxItems on a
// page.
const (
	comparedDays = 30
	pageHandoffs = 256
)

// histories returns the traffic of a home for the daily comparison with each other home, for which
// each side lists all shared handoffs.
func (r *run) histories(h *home) Flow {
	c, peers := r.cfg.Costs, float64(r.cfg.Homes-1)
	listed := comparedDays * float64(h.shared) * 24 / float64(r.cfg.Hours)
	met := peers * (1 - math.Exp(-listed/peers)) // peers with a shared handoff, if all are equally likely
	pages := int64(max(2*met, listed/pageHandoffs) * float64(r.cfg.Hours) / 24)
	entries := int64(listed * c.DigestEntry * float64(r.cfg.Hours) / 24)
	x := c.Exchanges[Digest]
	x.Question, x.QuestionRead = c.Exchanges[Greeting].Question, c.Exchanges[Greeting].QuestionRead
	f := r.both(x).times(pages)
	f.SentBytes += entries
	f.ReceivedBytes += entries
	return f
}

func (r *run) both(x Exchange) Flow {
	asks := r.asks(x)
	asks = asks.plus(r.answers(x))
	return asks
}

func (r *run) asks(x Exchange) Flow {
	c := r.cfg.Costs.Control
	return Flow{Sent: 1, Received: 1, SentBytes: int64(x.Question + c.Ack), ReceivedBytes: int64(x.AnswerRead + c.Stored)}
}

func (r *run) answers(x Exchange) Flow {
	c := r.cfg.Costs.Control
	return Flow{Sent: 1, Received: 1, SentBytes: int64(x.Answer + c.Ack), ReceivedBytes: int64(x.QuestionRead + c.Stored)}
}

func (r *run) finish() {
	res, c, n := &r.result, r.cfg.Costs, int64(r.cfg.Homes)
	greetings, clocks, streams := r.idle()
	openTo, asked := int64(r.openTo()), int64(1)
	if r.cfg.Protocol.SearchesAll {
		asked = n - 1
	}
	mailbox := c.Exchanges[Mailbox]
	var work, open, search, histories Flow
	for i := range r.homes {
		h := &r.homes[i]
		// Other homes are chosen evenly: this home gets its share of steps of offers to anyone, and
		// of searches.
		var openHere Flow
		others := 0.0
		for k, all := range res.Opens {
			arrived := (all - h.opens[k]) * openTo / (n - 1)
			others += float64(arrived) / stepsOfHandoff
			openHere = openHere.plus(r.asks(r.sizes[openOffer+step(k)]).times(h.opens[k] * openTo))
			openHere = openHere.plus(r.answers(r.sizes[openOffer+step(k)]).times(arrived))
		}
		searchHere := r.asks(mailbox).times(h.searches * asked)
		if r.cfg.Protocol.SearchesAll {
			searchHere = searchHere.plus(r.answers(mailbox).times(res.Searches - h.searches))
		}
		work = work.plus(h.work)
		open = open.plus(openHere)
		search = search.plus(searchHere)
		compared := r.histories(h)
		histories = histories.plus(compared)
		u := HomeUse{Agents: h.agents, Work: h.work, All: h.work, Rows: h.rows, Shared: h.shared}
		u.All = u.All.plus(openHere)
		u.All = u.All.plus(searchHere)
		u.All = u.All.plus(compared)
		for _, f := range []Flow{greetings, clocks, streams} {
			u.All = u.All.plus(f.times(n - 1))
		}
		u.Rows.Rows += others*c.OpenThere.Rows + float64(h.searches)*c.Location.Rows
		u.Rows.Bytes += others*c.OpenThere.Bytes + float64(h.searches)*c.Location.Bytes
		u.CPU = h.busy.Seconds()/(float64(r.cfg.Hours)*3600) + float64(n-1)*c.HomePeerCPU
		res.Homes = append(res.Homes, u)
		res.WaitsForHome += int64(len(h.waiting))
	}
	pairs := n * (n - 1)
	for _, cause := range []struct {
		name string
		all  Flow
	}{
		{CauseWork, work}, {CauseOpen, open}, {CauseSearch, search}, {CauseGreetings, greetings.times(pairs)}, {CauseClocks, clocks.times(pairs)}, {CauseHistories, histories}, {CauseStreams, streams.times(pairs)},
	} {
		res.Causes = append(res.Causes, Cause{cause.name, float64(cause.all.Messages()) / float64(n), float64(cause.all.Bytes()) / float64(n)})
	}
	for _, f := range []Flow{greetings, clocks, streams} {
		res.HubIdle = res.HubIdle.plus(f.times(pairs))
	}
	res.HubIdle = res.HubIdle.plus(histories)
	r.peaks()
	slices.SortStableFunc(res.Homes, func(a, b HomeUse) int { return a.Agents - b.Agents })
}

// Idle traffic is the same in all minutes.
func (r *run) peaks() {
	res := &r.result
	var busiest Flow
	for _, m := range res.minutes {
		busiest.Sent, busiest.SentBytes = max(busiest.Sent, m.Sent), max(busiest.SentBytes, m.SentBytes)
	}
	busy := float64(busiest.Sent) / 60
	res.HubPeakMessages = busy + res.HubIdleMessages
	res.HubPeakRate = float64(busiest.SentBytes)/60 + float64(res.HubIdle.Bytes())/(float64(r.cfg.Hours)*3600)
	res.HubBusyCores = res.HubIdleCores + busy/2*r.cfg.Costs.HubExchangeCPU
	res.Carried = res.HubBusyCores < r.cfg.HubCores
	res.minutes = nil
}

// MeanBytes returns the bytes exchanged between the mean home and the hub.
func (r *Result) MeanBytes() (bytes float64) {
	for _, cause := range r.Causes {
		bytes += cause.Bytes
	}
	return bytes
}

// MeanMessages returns the stored messages of the mean home.
func (r *Result) MeanMessages() (messages float64) {
	for _, cause := range r.Causes {
		messages += cause.Messages
	}
	return messages
}

// AwayShare returns the share of absent recipients among those at other homes.
func (r *Result) AwayShare() float64 {
	away := float64(r.Offline.Count() + r.InInbox)
	return away / (away + float64(r.Online.Count()))
}

// Median returns the home of median size.
func (r *Result) Median() HomeUse { return r.Homes[len(r.Homes)/2] }

// Largest returns the largest home.
func (r *Result) Largest() HomeUse { return r.Homes[len(r.Homes)-1] }

// MostHomes returns the number of homes that a resource of the hub supports, if each stream between
// two homes uses some of it.
func MostHomes(has, forEach float64) int {
	return int((1 + math.Sqrt(1+4*has/forEach)) / 2)
}
