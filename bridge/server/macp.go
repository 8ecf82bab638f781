package server

import (
	"time"

	"baton/bridge/macp"
)

// macpDeps returns what the MACP runtime needs beside the ports of each link.
func (s *Server) macpDeps(record boundRecord) macp.Deps {
	return macp.Deps{Journals: record, Steps: record, Bounds: sessionBounds{s}, Version: s.options.Version}
}

// sessionBounds implements [macp.BoundSource].
type sessionBounds struct{ *Server }

// Bounds implements [macp.BoundSource].
func (b sessionBounds) Bounds() macp.Bounds {
	return macp.Bounds{Finished: time.Duration(b.finished.Load()), ClockSkew: b.limits.Load().ClockSkew}
}
