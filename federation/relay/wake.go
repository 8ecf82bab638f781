package relay

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/nats-io/nats.go"
)

// maxPending bounds the messages that wait for a topic: while one becomes tokens, a second one
// stands for all that follow.
const maxPending = 2

// liveSubject begins the subjects of wake-ups.
const liveSubject = "live."

// Wake wakes all waiters of the topics. It does not block.
func (r *Relay) Wake(topics ...string) {
	if r == nil {
		return
	}
	for _, topic := range topics {
		if r.conn == nil {
			r.notify(topic)
			continue
		}
		_ = r.conn.Publish(r.subject(topic), nil) // a wake-up may be lost
	}
}

// Subscribe returns a channel that holds one token once the topic was woken, however often. After
// stop it gets none. The channel is never closed.
func (r *Relay) Subscribe(topic string) (wake <-chan struct{}, stop func()) {
	token := make(chan struct{}, 1)
	if r == nil {
		return token, func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.topics[topic]
	if w == nil {
		w = &waiters{tokens: map[chan struct{}]struct{}{}}
		if err := r.listen(w, topic); err != nil {
			return token, func() {} // the relay is closed
		}
		r.topics[topic] = w
	}
	w.tokens[token] = struct{}{}
	return token, func() { r.leave(topic, token) }
}

// waiters is the waiters of one topic, which share one subscription at the servers.
type waiters struct {
	subscription *nats.Subscription // nil inside one process
	tokens       map[chan struct{}]struct{}
}

// listen subscribes to a topic at the servers.
func (r *Relay) listen(w *waiters, topic string) error {
	if r.conn == nil {
		return nil
	}
	var err error
	if w.subscription, err = r.conn.Subscribe(r.subject(topic), func(*nats.Msg) { r.notify(topic) }); err != nil {
		return err
	}
	_ = w.subscription.SetPendingLimits(maxPending, -1) // fails for one that has ended
	return nil
}

// notify gives a token to each waiter of a topic.
func (r *Relay) notify(topic string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.topics[topic]
	if w == nil {
		return
	}
	for token := range w.tokens {
		select {
		case token <- struct{}{}:
		default: // one token stands for several wake-ups
		}
	}
}

// leave ends the subscription of one waiter.
func (r *Relay) leave(topic string, token chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.topics[topic]
	if w == nil {
		return // the last waiter has left
	}
	delete(w.tokens, token)
	if len(w.tokens) > 0 {
		return
	}
	delete(r.topics, topic)
	if w.subscription != nil {
		_ = w.subscription.Unsubscribe() // fails for one that has ended
	}
}

// subject returns the NATS subject of a topic. It has a hash of the topic: dots, wildcards and
// spaces have a meaning in subjects.
func (r *Relay) subject(topic string) string {
	sum := sha256.Sum256([]byte(topic))
	return r.prefix + hex.EncodeToString(sum[:16])
}
