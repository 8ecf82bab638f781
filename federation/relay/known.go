package relay

import "baton/federation"

// Known returns how the other home is reached.
func (p *Peer) Known() federation.KnownHome {
	return federation.KnownHome{Home: p.Home(), URL: p.URL(), Path: string(p.Path())}
}

// Blocked reports whether an operator blocked the other home: it is sent nothing.
func (p *Peer) Blocked() bool { return p.Mode() == Block }
