package relay

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/nats-io/nats.go"
)

// maxPending bounds the messages that wait for a topic. One is being turned into tokens,
// and one more makes others after it; a third would say nothing new.
const maxPending = 2

// liveSubject begins the subjects of wake-ups.
const liveSubject = "live."

// Wake wakes all who wait for one of the topics. It does not wait for them.
func (r *Relay) Wake(topics ...string) {
	if r == nil {
		return
	}
	for _, topic := range topics {
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
	subject := r.subject(topic)
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.topics[subject]
	if w == nil {
		var err error
		if w, err = r.await(subject); err != nil {
			return token, func() {} // the relay is closed
		}
		r.topics[subject] = w
	}
	w.tokens[token] = struct{}{}
	return token, func() { r.leave(subject, token) }
}

// waiters are those who wait for one topic. They share a subscription: each costs a
// goroutine, here and in the server, and a message whenever the topic is woken.
type waiters struct {
	subscription *nats.Subscription
	tokens       map[chan struct{}]struct{}
}

// await subscribes to a subject, for nobody yet.
func (r *Relay) await(subject string) (*waiters, error) {
	w := &waiters{tokens: map[chan struct{}]struct{}{}}
	var err error
	w.subscription, err = r.conn.Subscribe(subject, func(*nats.Msg) { r.woken(w) })
	if err != nil {
		return nil, err
	}
	_ = w.subscription.SetPendingLimits(maxPending, -1) // fails for one that has ended
	return w, nil
}

// woken gives a token to each who waits for a topic.
func (r *Relay) woken(w *waiters) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for token := range w.tokens {
		select {
		case token <- struct{}{}:
		default: // one token says as much as two
		}
	}
}

// leave takes back what Subscribe did for one who waits.
func (r *Relay) leave(subject string, token chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.topics[subject]
	if w == nil {
		return // who left before was the last one
	}
	delete(w.tokens, token)
	if len(w.tokens) == 0 {
		delete(r.topics, subject)
		_ = w.subscription.Unsubscribe() // fails for one that has ended
	}
}

// subject returns the NATS subject of a topic. It is made of a hash: in a subject,
// dots and wildcards have a meaning, and spaces end it.
func (r *Relay) subject(topic string) string {
	sum := sha256.Sum256([]byte(topic))
	return r.prefix + hex.EncodeToString(sum[:16])
}
