package freeq

import (
	"slices"
	"strconv"
	"strings"

	"baton/bridge"
	"baton/translate"
)

var (
	_ bridge.Hearer    = (*Link)(nil)
	_ bridge.Describer = (*Link)(nil)
	_ bridge.Homed     = (*Link)(nil)
)

// agree returns what the peer and this end know of each other, by words for operators.
func (s *session) agree() map[string]string {
	capabilities := slices.Sorted(slices.Values(s.greeting.Capabilities))
	return map[string]string{
		"protocol": "freeq/s2s/1", "server": clip(s.greeting.ServerName), "endpoint_id": s.link.cfg.EndpointID, "our_endpoint_id": s.link.id,
		"transport": string(s.link.cfg.Transport), "dialled": strconv.FormatBool(s.conn.dialled), "capabilities": clip(strings.Join(capabilities, " ")),
	}
}

// Describe implements [bridge.Describer].
func (l *Link) Describe() bridge.Description {
	d := bridge.Description{Channels: l.Channels(), NotCarried: []string{
		"a step whose tags are longer than " + strconv.Itoa(translate.MaxTagBytes) + " bytes",
		"a step of a handoff of a third home",
		"the answer to a step that is refused at once",
	}}
	if s := l.live.Load(); s != nil {
		d.Negotiated = s.agreed
	}
	return d
}
