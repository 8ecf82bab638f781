package freeq

import (
	"os/exec"
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
	}, Obstacles: l.obstacles()}
	if s := l.live.Load(); s != nil {
		d.Negotiated = s.agreed
	}
	return d
}

// installDumbpipe installs a version that works with freeq servers. Other versions write their log
// into the stream, or speak another protocol.
//
// spec: freeq-s2s "What works against freeq's iroh 0.97"
const installDumbpipe = "cargo install dumbpipe --version 0.40.1 --locked"

// obstacles returns what blocks receipts or the link itself: an address that the gateway's client
// does not read, and a program that is not installed.
func (l *Link) obstacles() (found []string) {
	if strings.HasPrefix(l.cfg.PeerAPI, "http://") && !l.deps.HTTP.FetchPrivate {
		found = append(found, "receipts and steps wait: the keys at peer_api "+l.cfg.PeerAPI+
			" are not read over plain http; use https, or set allow_private in [fetch]")
	}
	if l.cfg.Transport != Exec {
		return found
	}
	var programs []string
	if l.cfg.dials() {
		programs = append(programs, l.cfg.DialCommand[0])
	}
	if l.cfg.Listen != "" {
		programs = append(programs, l.cfg.ListenCommand[0])
	}
	for _, program := range slices.Compact(programs) {
		if _, err := exec.LookPath(program); err != nil {
			found = append(found, "the link cannot connect: "+program+" is not installed; run "+installDumbpipe+
				", or name the program in dial_command and listen_command")
		}
	}
	return found
}
