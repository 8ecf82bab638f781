package relay

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/nats-io/nats.go"
)

// maxPending bounds the messages that wait for a topic. One is being turned into tokens,
// and one more makes tokens after it; a third would say nothing new.
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

// Subscribe returns a channel that holds one token once the topic was woken,
// however often that was. After stop no wake-up is put there; the channel is never
// closed.
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

// waiters are the waiters of one topic. They share one subscription at the servers.
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
		default: // one token says as much as two
		}
	}
}

// leave takes back a subscription of one waiter.
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

// subject returns the NATS subject of a topic. It is made of a hash: in a subject,
// dots and wildcards have a meaning, and spaces end it.
func (r *Relay) subject(topic string) string {
	sum := sha256.Sum256([]byte(topic))
	return r.prefix + hex.EncodeToString(sum[:16])
}
