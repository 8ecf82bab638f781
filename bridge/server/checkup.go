package server

import (
	"context"

	"baton/bridge/operatorapi/checkup"
	"baton/bridge/operatorapi/contract"
	"baton/federation/identity"
)

// doctor implements [operatorapi.Doctor].
type doctor struct{ p *Server }

// Examine implements [operatorapi.Doctor].
func (d doctor) Examine(ctx context.Context, online bool) []contract.Diagnosis {
	file := d.p.file
	c := checkup.Checkup{
		Home: d.p.homeID(), Key: string(identity.KeyDID(d.p.serverKey().Public)),
		Folder: file.Path("."), RecordFiles: recordFiles(file), ClockDoubt: d.p.clock.Doubt(), Secrets: file.SecretFiles(), Keys: KeyFolder(file).Dir,
		Record: d.p.Record, Relay: d.p.relay, Links: d.p.Gateway.Links().Statuses(), Peers: d.p.peers(),
		Documents: d.p.client, Canary: d.p.homes.canary,
	}
	c.Unfinished, c.UnfinishedErr = unfinishedErasures(file)
	if tls := file.TLSConfig(); tls != nil && len(tls.Certificates) > 0 {
		c.Certificate = tls.Certificates[0].Leaf
	}
	if d.p.public != nil && len(file.HTTP.TrustedProxies) > 0 {
		c.Proxies = new(d.p.public.Unforwarded())
	}
	if d.p.hub != nil {
		c.Hub = d.p.hub
	}
	return c.Examine(ctx, online)
}
