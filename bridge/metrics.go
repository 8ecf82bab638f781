package bridge

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
)

// Metrics are the common counters of all networks. Labels come from closed sets, never a DID or an
// ID.
type Metrics struct {
	Events     *prometheus.CounterVec   // network verb verdict outcome
	Refusals   *prometheus.CounterVec   // network code
	BadInput   *prometheus.CounterVec   // network link reason
	Limited    *prometheus.CounterVec   // network
	Closed     *prometheus.CounterVec   // listener reason
	Blocked    *prometheus.CounterVec   // network
	Outcomes   *prometheus.CounterVec   // network outcome
	LinkUp     *prometheus.GaugeVec     // network link
	Reconnects *prometheus.CounterVec   // network link
	Deliver    *prometheus.HistogramVec // network
	Conflicts  prometheus.Counter
	Resent     *prometheus.CounterVec // network link
	Relays     *prometheus.CounterVec // peer outcome
	Strangers  *prometheus.CounterVec // reason
	Chat       *prometheus.CounterVec // network link outcome
	Faults     *prometheus.CounterVec // by place
	Tasks      *prometheus.CounterVec // link outcome
	OpenTasks  *prometheus.GaugeVec   // link
}

// NewMetrics registers the metrics of all networks.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "baton", Name: name, Help: help}, labels)
	}
	m := &Metrics{
		Events:   counter("events_total", "Steps judged.", "network", "verb", "verdict", "outcome"),
		Refusals: counter("refusals_total", "Refusals, by the code sent to the network.", "network", "code"),
		BadInput: counter("bad_input_total", "Lines and bodies that could not be read.", "network", "link", "reason"),
		Limited:  counter("rate_limited_total", "Steps and requests refused by a limit.", "network"),
		Closed:   counter("connections_closed_total", "Connections closed or refused by a limit.", "listener", "reason"),
		Blocked:  counter("blocked_total", "Steps, logins and connections of sources that an operator blocked.", "network"),
		Outcomes: counter("outcomes_total", "Deliveries ended.", "network", "outcome"),
		LinkUp: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "baton", Name: "link_up", Help: "1 after an authenticated burst, else 0.",
		}, []string{"network", "link"}),
		Reconnects: counter("link_reconnects_total", "Dials after a loss.", "network", "link"),
		Resent:     counter("link_resent_total", "Messages written again because the peer had dropped them.", "network", "link"),
		Deliver: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "baton", Name: "deliver_seconds", Help: "Time from the filing of a step here until a link had delivered it.",
			Buckets: prometheus.ExponentialBuckets(0.001, 8, 9), // from 1 ms (a nearby link) to 4.7 h (an absent peer)
		}, []string{"network"}),
		Conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "baton", Name: "home_conflicts_total", Help: "Steps that were judged again because another one was filed first.",
		}),
	}
	m.Relays = counter("relay_attempts_total", "Delivery attempts to other registries, by outcome.", "peer", "outcome")
	m.Strangers = counter("strangers_refused_total", "Requests of DIDs new to the record that a limit refused, by limit.", "reason")
	m.Chat = counter("chat_lines_total", "Lines of channels received from a link for other links, by outcome.", "network", "link", "outcome")
	for _, reason := range federation.NewDIDLimitReasons() {
		m.Strangers.WithLabelValues(string(reason)) // present from the start
	}
	m.Faults = counter("faults_total", "Recovered panics, by the failed part of the program.", "where")
	m.Faults.WithLabelValues(RequestFault) // present from the start
	m.Tasks = counter("agent_tasks_total", "Created and ended tasks of external agents, by outcome.", "link", "outcome")
	m.OpenTasks = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "baton", Name: "agent_tasks_open", Help: "Tasks of external agents in progress.",
	}, []string{"link"})
	reg.MustRegister(m.Tasks, m.OpenTasks, m.Faults, m.Strangers, m.Chat, m.Relays, m.Events, m.Refusals, m.BadInput, m.Limited, m.Blocked, m.Closed, m.Outcomes, m.LinkUp, m.Reconnects, m.Resent, m.Deliver, m.Conflicts)
	return m
}

// RequestFault is the label of faults in HTTP requests.
const RequestFault = "request"

// Fault logs and counts a contained panic, and reports whether err is one. The label names the
// ended connection or job, such as "link lab".
func (m *Metrics) Fault(ctx context.Context, log *slog.Logger, where string, err error) bool {
	caught := fault.Of(err)
	if caught == nil {
		return false
	}
	m.Faults.WithLabelValues(where).Inc()
	log.LogAttrs(ctx, slog.LevelError, "fault contained", slog.String("where", where), slog.String("err", err.Error()), slog.String("stack", string(caught.Stack)))
	return true
}

// Tracer traces steps for operators. Its methods do not block, and may be called concurrently. A
// nil Tracer records nothing.
type Tracer interface {
	// Submitted records the judgement of a step submitted by a link, an agent or another home.
	Submitted(ctx context.Context, j Judged)
	// RecordRuling records the judgement of a step after its home's ruling.
	RecordRuling(ctx context.Context, j Judged)
	// Delivering starts the trace of one delivery attempt, which must use the returned context. The
	// caller calls end with the result.
	Delivering(ctx context.Context, link Link, d federation.Delivery) (delivering context.Context, end func(error))
}

// Judged is a step and its judgement.
type Judged struct {
	Event     federation.Event // as received
	Judgement federation.Judgement
	Err       error
	Start     time.Time
}
