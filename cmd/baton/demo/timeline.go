package demo

import (
	"fmt"
	"io"
	"time"

	"github.com/baton-gateway/baton/federation"
)

type timeline struct {
	out    io.Writer
	people map[federation.DID]string
	steps  int
}

func (l *timeline) step(e federation.Entry, to string) {
	l.steps++
	if name, ok := l.people[federation.DID(to)]; ok {
		to = federation.DID(to).Short() + "(" + name + ")"
	}
	from := e.Event.From.Short() + "(" + l.people[e.Event.From] + ")"
	l.event(string(e.Event.Verb), e.Event.Handoff, fmt.Sprintf("%-36s ->  %-36s %-8s %s  filed", from, to, e.Event.Provenance, federation.Valid))
}

func (l *timeline) event(name string, id federation.HandoffID, text string) {
	fmt.Fprintf(l.out, "%s %-9s …%s  %s\n", time.Now().UTC().Format("15:04:05.000"), name, id.Short(), text)
}
