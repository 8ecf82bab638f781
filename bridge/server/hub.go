package server

import (
	"context"
	"log/slog"
	"strconv"

	"baton/configs"
	"baton/federation"
	"baton/federation/relay"
)

// readMeeting reads how NATS is used. It adds mistakes to the mistakes of the file.
func readMeeting(file *configs.File) relay.Meeting {
	var hub configs.Hub
	file.Table(relay.HubTable).Decode(&hub)
	if hub.Replicas < 0 || hub.Replicas > configs.MaxReplicas {
		file.Table(relay.HubTable).Mistake("replicas", "want 0 to "+strconv.Itoa(configs.MaxReplicas))
	}
	own := file.Relay
	return relay.MeetingText{
		Home: federation.HomeID(file.Home.Name), Listen: own.Listen, Replicas: own.Replicas, MaxBytes: own.MaxBytes, TLS: file.TLSConfig(),
		Own:         relay.ServerText{URLs: own.URLs, CredsFile: own.CredsFile, NKeyFile: own.NKeyFile, CAFile: own.CAFile},
		Hub:         relay.ServerText{URLs: hub.URLs, CredsFile: hub.CredsFile, NKeyFile: hub.NKeyFile, CAFile: hub.CAFile},
		HubReplicas: hub.Replicas,
	}.Parse(file, func(table, key, why string) { file.Table(table).Mistake(key, why) })
}

// openMeeting opens the server that homes of others link to, where there is to be one,
// and begins to connect to the one that homes meet at.
func (s *Server) openMeeting(ctx context.Context, log *slog.Logger) error {
	m := readMeeting(s.file)
	var err error
	if m.Host != nil {
		if s.host, err = relay.OpenHost(ctx, *m.Host, log); err != nil {
			return err
		}
		log.InfoContext(ctx, "listening", slog.String("listener", "relay"), slog.String("address", s.host.URL()))
		m.Hub.Host = s.host
	}
	if m.Hub.Named() {
		s.hub, err = relay.OpenHub(m.Hub, s.homeID(), log)
	}
	return err
}
