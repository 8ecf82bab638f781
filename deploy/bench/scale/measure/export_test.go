package measure

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"strings"

	"github.com/baton-gateway/baton/deploy/bench/scale/model"
	"github.com/baton-gateway/baton/federation/relay"
)

// GreetingOf returns the bytes of a greeting between two relays at a hub in this process.
func GreetingOf(ctx context.Context, dir string) (x model.Exchange, err error) {
	names := homeNames(2)
	if _, err := relay.SaveAccounts(dir, names, relay.HubLayout{}); err != nil {
		return x, err
	}
	hub, err := relay.OpenHost(ctx, relay.HostConfig{
		Listen: "127.0.0.1:0", AccountsFile: filepath.Join(dir, relay.HubFile), Dir: streams(dir),
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		return x, err
	}
	defer hub.Close()
	t, err := newTap(ctx, strings.TrimPrefix(hub.URL(), "nats://"))
	if err != nil {
		return x, err
	}
	defer t.close()
	m, err := openMesh(ctx, dir, t.url(), names)
	if err != nil {
		return x, err
	}
	defer m.close()
	t.reset()
	m.greet()
	sizes := map[way]tally{}
	err = await(ctx, func() bool {
		maps.Copy(sizes, t.reset())
		x.Question, x.QuestionRead = mean(sizes, true, string(model.Greeting)), mean(sizes, false, string(model.Greeting))
		x.Answer, x.AnswerRead = mean(sizes, true, string(model.Greeting)+answerSuffix), mean(sizes, false, string(model.Greeting)+answerSuffix)
		return x.Question > 0 && x.QuestionRead > 0 && x.Answer > 0 && x.AnswerRead > 0
	})
	return x, err
}

// KindOf returns the kind of a message of the protocol of NATS, with its line.
func KindOf(text string) (string, error) {
	t := &tap{counts: map[way]tally{}, asked: map[string]string{}}
	err := t.copy(strings.NewReader(text), io.Discard, true)
	for at := range t.counts {
		return at.kind, nil
	}
	return "", err
}
