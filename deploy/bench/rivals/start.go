package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"github.com/ergochat/irc-go/ircmsg"
)

type serverLink struct {
	Name string
	Port int
	Dial bool
}

func startServer(ctx context.Context, s *stage, name string, link serverLink) error {
	if link.Port == 0 {
		link.Port = 1 // an unused port: this server never dials
	}
	clients, err := s.port(name)
	if err != nil {
		return err
	}
	servers, err := s.port(name + " servers")
	if err != nil {
		return err
	}
	path, err := s.write(name+".conf", "inspircd.conf", map[string]any{
		"Name": name, "SID": map[string]string{"near": "1NE", "far": "2FA"}[name], "Clients": clients, "Servers": servers, "Links": []serverLink{link},
	})
	if err != nil {
		return err
	}
	args := []string{s.programs["inspircd"], "--config", path, "--nofork", "--nopid", "--nolog"}
	if os.Geteuid() == 0 {
		args = append(args, "--runasroot")
	}
	return s.launch(ctx, name, []string{name, name + " servers"}, args...)
}

func startServers(ctx context.Context, s *stage, near, far serverLink, bridge string) error {
	if err := startServer(ctx, s, "near", near); err != nil {
		return err
	}
	if err := startServer(ctx, s, "far", far); err != nil {
		return err
	}
	return s.joinSender(ctx, bridge)
}

func (s *stage) joinSender(ctx context.Context, bridge string) error {
	c, err := dial(ctx, s.address("near"), "ann", "message-tags echo-message")
	if err != nil {
		return fmt.Errorf("join on the near server: %w", err)
	}
	go func() { // it ends with the server
		_ = c.read(func(m ircmsg.Message) {
			if a, ok := arrivalOf(m); ok && m.Nick() == "ann" {
				s.tally.accepted(a.number)
			}
			if m.Nick() == bridge && (m.Command == "JOIN" || m.Command == "QUIT") {
				s.tally.bridgeIs(m.Command == "JOIN")
			}
		})
	}()
	s.sender, err = newTalker(c)
	return err
}

func startBaton(ctx context.Context, s *stage) error {
	gateway := serverLink{Name: "gw.example"}
	if err := startServers(ctx, s, gateway, gateway, "Baton"); err != nil {
		return err
	}
	values, err := s.assign("HTTP", "Admin")
	if err != nil {
		return err
	}
	values["Near"], values["Far"] = s.ports["near servers"], s.ports["far servers"]
	path, err := s.write("baton.toml", "baton.toml", values)
	if err != nil {
		return err
	}
	data := filepath.Join(s.folder, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(data, "password"), []byte("bench\n"), 0o600); err != nil {
		return err
	}
	if err := s.launch(ctx, "baton", []string{"Admin"}, s.programs["baton"], "serve", "--config", path); err != nil {
		return err
	}
	ready := url.URL{Scheme: "http", Host: s.address("Admin"), Path: "/readyz"}
	return until(ctx, func() error {
		if err := s.running("baton"); err != nil {
			return err
		}
		answer, err := http.Get(ready.String()) //nolint:noctx // the loopback answers at once
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("baton is not ready: %s", answer.Status)
		}
		return nil
	})
}

func startLinked(ctx context.Context, s *stage) error {
	port, err := s.port("far servers")
	if err != nil {
		return err
	}
	return startServers(ctx, s, serverLink{Name: "far.example", Port: port, Dial: true}, serverLink{Name: "near.example"}, "")
}

func startMatterbridge(ctx context.Context, s *stage) error {
	nobody := serverLink{Name: "nobody.example"}
	if err := startServers(ctx, s, nobody, nobody, "bridge"); err != nil {
		return err
	}
	path, err := s.write("matterbridge.toml", "matterbridge.toml", map[string]any{"Near": s.ports["near"], "Far": s.ports["far"]})
	if err != nil {
		return err
	}
	return s.launch(ctx, "matterbridge", nil, s.programs["matterbridge"], "-conf", path)
}

// Biboumi shows IRC channels as XMPP rooms, and cannot connect two of them. Only one server is
// connected.
func startBiboumi(ctx context.Context, s *stage) error {
	if err := startServer(ctx, s, "far", serverLink{Name: "nobody.example"}); err != nil {
		return err
	}
	values, err := s.assign("XMPP", "Component")
	if err != nil {
		return err
	}
	prosody, err := s.write("prosody.cfg.lua", "prosody.cfg.lua", values)
	if err != nil {
		return err
	}
	biboumi, err := s.write("biboumi.cfg", "biboumi.cfg", values)
	if err != nil {
		return err
	}
	if err := s.launch(ctx, "prosody", []string{"XMPP", "Component"}, s.programs["prosody"], "--config", prosody, "-F"); err != nil {
		return err
	}
	if err := s.launch(ctx, "biboumi", nil, s.programs["biboumi"], biboumi); err != nil {
		return err
	}
	s.sender, err = joinRoom(ctx, s.address("XMPP"), s.ports["far"], s.tally)
	return err
}
