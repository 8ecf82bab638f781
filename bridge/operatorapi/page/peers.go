package page

import (
	"net/http"
	"strconv"

	"baton/bridge/operatorapi/contract"
)

// loadPeers shows the other homes and registries.
func loadPeers(r request) (view, error) {
	const changes = "POST peers/{name}/mode"
	page, err := ask[contract.PeerPage](r, func(api *contract.Client) (*http.Response, error) {
		return api.ListPeers(r.ctx, &contract.ListPeersParams{Cursor: r.query.Get("cursor")})
	})
	if err != nil {
		return view{}, err
	}
	t := &table{
		Caption: "Peers", Columns: []string{"Name", "Network", "Mode", "State", "Path", "Heard", "Waiting", "Oldest", "Dead", "Clock ahead by", "Forks", "Doubts", "Last error"},
		Empty: "No other home or registry is known.", Older: r.older("peers", page.NextCursor),
	}
	r.addActions(t, changes)
	forks := &table{Caption: "Forks", Columns: []string{"Peer", "Handoff", "From step", "Found"}}
	doubts := &table{Caption: "Doubts", Columns: []string{"Peer", "Kind", "Times", "First", "Last", "Why"}}
	for _, p := range page.Items {
		mode := p.Mode
		if p.Held {
			mode += " (held)"
		}
		home := p.PeerHome
		if home == nil {
			home = &contract.PeerHome{}
		}
		cells := []cell{
			words(p.Name), words(p.Network), state(mode), state(home.State), words(home.Path), at(home.LastHeard, r.now), number(p.Waiting), at(p.Oldest, r.now), number(p.Dead),
			skew(p), number(len(home.Forks)), number(len(home.Doubts)), long(p.LastError),
		}
		t.Rows = append(t.Rows, row{p.Name + " " + p.Network, r.withActions(cells, changes, r.act("peers", p.Name, "mode"))})
		for _, f := range home.Forks {
			forks.Rows = append(forks.Rows, row{p.Name + f.Handoff.String(), []cell{words(p.Name), handoffCell(f.Handoff), number(uint64(f.Version)), at(f.Found, r.now)}})
		}
		for _, d := range home.Doubts {
			doubts.Rows = append(doubts.Rows, row{p.Name + string(d.Kind), []cell{words(p.Name), words(d.Kind), number(d.Times), at(d.First, r.now), at(d.Last, r.now), long(d.Why)}})
		}
	}
	v := view{Title: "Peers", Sections: []section{{ID: "peers", Table: t, Command: r.command("peer", "list")}}}
	for id, each := range map[string]*table{"forks": forks, "doubts": doubts} {
		if len(each.Rows) > 0 {
			v.Sections = append(v.Sections, section{ID: id, Table: each, Command: "baton peer list --json"})
		}
	}
	return v, nil
}

// skew returns a cell of how far our clock is ahead of the clock of a home.
func skew(p contract.Peer) cell {
	if p.PeerHome == nil {
		return cell{}
	}
	return cell{Text: strconv.FormatFloat(p.SkewSeconds, 'f', 1, 64) + " s", Class: "num"}
}
