package admin

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/baton-gateway/baton/bridge"
)

// readyTimeout bounds a readiness check, because probers do not wait longer.
const readyTimeout = 2 * time.Second

// Part is a part of the gateway that must work for readiness.
type Part struct {
	Name  string
	Check func(ctx context.Context) error // nil while the part works
}

// CheckReadiness checks all parts, and adds the disconnected links.
func CheckReadiness(ctx context.Context, parts []Part, down []string) Readiness {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ready := Readiness{Reasons: []string{}}
	for _, part := range parts {
		if err := part.Check(ctx); err != nil {
			ready.Reasons = append(ready.Reasons, part.Name+": "+err.Error())
		}
	}
	for _, name := range down {
		ready.Reasons = append(ready.Reasons, "link "+name+": down")
	}
	ready.Ready = len(ready.Reasons) == 0
	return ready
}

// Probes serves the state of the process to operators and their probers: /livez, /readyz, /statusz,
// profiles and metrics.
type Probes struct {
	Ready    func(ctx context.Context) Readiness
	Metrics  http.Handler // may be nil
	Standing func(ctx context.Context) Standing
	// HomesDown returns the names of unreachable homes, for a /readyz request that includes them.
	HomesDown func() []string
	// Guard protects profiles and metrics from strangers; nil leaves them open.
	Guard func(http.Handler) http.Handler
	// GuardDebug replaces Guard for profiles; nil uses Guard.
	GuardDebug func(http.Handler) http.Handler
}

// Mount registers the routes.
func (p Probes) Mount(mux *http.ServeMux) {
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		answerProbe(w, http.StatusOK, map[string]bool{"live": true})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		status, ready := http.StatusOK, p.Ready(r.Context())
		if r.URL.Query().Has(PeersParameter) {
			for _, name := range p.HomesDown() {
				ready.Ready, ready.Reasons = false, append(ready.Reasons, "peer "+name+": down")
			}
		}
		if !ready.Ready {
			status = http.StatusServiceUnavailable
		}
		answerProbe(w, status, ready)
	})
	guard := p.Guard
	if guard == nil {
		guard = func(h http.Handler) http.Handler { return h }
	}
	debug := p.GuardDebug
	if debug == nil {
		debug = guard
	}
	for path, serve := range map[string]http.HandlerFunc{
		"/debug/pprof/": pprof.Index, "/debug/pprof/cmdline": pprof.Cmdline, "/debug/pprof/profile": pprof.Profile,
		"/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": pprof.Trace,
	} {
		mux.Handle("GET "+path, debug(serve))
	}
	mux.Handle("GET /statusz", guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answerProbe(w, http.StatusOK, p.Standing(r.Context()))
	})))
	if p.Metrics != nil {
		mux.Handle("GET /metrics", guard(p.Metrics))
	}
}

func answerProbe(w http.ResponseWriter, status int, document any) {
	text, err := json.Marshal(document)
	if err != nil {
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the client is gone
}

// IsLoopback reports whether an address is reachable only from this machine.
func IsLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// ListenerHosts returns the host names allowed in requests to a listener of operators, in addition
// to IP addresses and localhost: the home's name and the listener's host.
func ListenerHosts(home, listen string) []string {
	names := []string{home}
	if host, _, err := net.SplitHostPort(listen); err == nil && host != "" {
		names = append(names, host)
	}
	return names
}

// Standing is the answer of /statusz.
type Standing struct {
	Readiness

	Links []LinkStanding `json:"links"` // of the gateway
	Peers []LinkStanding `json:"peers"` // other homes
	Relay string         `json:"relay"` // "ok", or why it is unreachable
	Hub   string         `json:"hub,omitempty"`
}

// LinkStanding is the state of one link.
type LinkStanding struct {
	Name      string           `json:"name"`
	Network   string           `json:"network"`
	State     bridge.LinkState `json:"state"`
	LastError string           `json:"last_error,omitempty"`
}

// NewStanding returns the state of all links and of the parts "relay" and, if present, "hub".
func NewStanding(ctx context.Context, ready Readiness, parts []Part, links []bridge.LinkStatus) Standing {
	said := Standing{Readiness: ready, Links: []LinkStanding{}, Peers: []LinkStanding{}}
	for _, part := range parts {
		state := "ok"
		if err := part.Check(ctx); err != nil {
			state = err.Error()
		}
		switch part.Name {
		case "relay":
			said.Relay = state
		case "hub":
			said.Hub = state
		}
	}
	for _, s := range links {
		at := StandingOf(s)
		if _, home := s.Link.(bridge.PeerHome); home {
			said.Peers = append(said.Peers, at)
		} else {
			said.Links = append(said.Links, at)
		}
	}
	return said
}
