package page

import (
	"strconv"

	"baton/bridge/operatorapi/contract"
)

// loadPeers shows the other homes and registries.
func loadPeers(r request) (view, error) {
	changes := contract.SetPeerMode.Scope
	page, err := call(r, contract.ListPeers, r.page())
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
	for _, each := range []section{{ID: "forks", Table: forks}, {ID: "doubts", Table: doubts}} {
		if len(each.Table.Rows) > 0 {
			each.Command = "baton peer list --json"
			v.Sections = append(v.Sections, each)
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
