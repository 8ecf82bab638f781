// Package model simulates a federation of homes at a hub: each step is a question and an answer
// that wait for the processors of two homes and of the hub. The costs are measured, and the
// behavior of agents is assumed. Runs are deterministic.
package model

import (
	"math/rand/v2"
)

// Config is one run.
type Config struct {
	Seed     uint64
	Homes    int
	From     int // first hour of the run
	Hours    int
	Costs    Costs
	Behavior Behavior
	Protocol Protocol
	HubCores float64
	Outage   *Outage // may be nil
}

// Outage is the absence of one home for a time.
type Outage struct {
	Home        int
	Hour, Hours int
}

// Flow is the traffic between a home and the hub. It counts the messages of homes; the bytes
// include the JetStream protocol.
type Flow struct {
	Sent, Received           int64 // messages
	SentBytes, ReceivedBytes int64
}

func (f Flow) plus(g Flow) Flow {
	return Flow{f.Sent + g.Sent, f.Received + g.Received, f.SentBytes + g.SentBytes, f.ReceivedBytes + g.ReceivedBytes}
}

func (f Flow) times(n int64) Flow {
	return Flow{f.Sent * n, f.Received * n, f.SentBytes * n, f.ReceivedBytes * n}
}

// Messages returns all messages of a flow.
func (f Flow) Messages() int64 { return f.Sent + f.Received }

// Bytes returns all bytes of a flow.
func (f Flow) Bytes() int64 { return f.SentBytes + f.ReceivedBytes }

// The time of a home for a step and for an answer, in Ed25519 verifications.
const (
	stepVerifications   = 12 // deploy/bench/README.md: "processor time of the gateway for one of these steps"
	answerVerifications = 2  // verification of the answer, and signature of the question
)

type what uint8

const (
	arrival       what = iota // an agent begins something
	submit                    // an agent takes a step in a handoff
	questionAtHub             // from the home of the sender
	questionThere             // at the home of the recipient
	answerAtHub
	answerHere
	comeback // of an absent home
)

type step uint8

const (
	text step = iota
	offer
	accept
	decline
	complete
	openOffer
	openClaim
	openComplete
)

func (s step) kind() Kind {
	return [...]Kind{Text, Offer, Accept, Decline, Complete, Open, Ruled, Ruled}[s]
}

func (s step) back() bool { return s == accept || s == decline || s == complete }

type run struct {
	*world

	random  *rand.Rand
	queue   *queue
	from    micros
	until   micros
	sizes   [8]Exchange // by step
	hub     micros      // time at which the hub finishes its work so far
	hubCost micros      // for one message; 0 if the hub is overloaded
	fixed   micros
	file    micros
	receipt micros
	reading micros // until an open request of a reader returns
	result  Result
}

// Run simulates one federation.
func Run(cfg Config) *Result {
	random := rand.New(rand.NewPCG(cfg.Seed, uint64(cfg.Homes)))
	r := &run{world: newWorld(cfg, random), random: random, from: micros(cfg.From) * hour}
	r.until = r.from + micros(cfg.Hours)*hour
	r.queue = newQueue(r.until)
	r.result = newResult(cfg)
	c := cfg.Costs
	for s := range step(len(r.sizes)) {
		r.sizes[s] = c.Exchanges[s.kind()]
	}
	r.file, r.receipt = seconds(stepVerifications*c.VerifyCPU), seconds(answerVerifications*c.VerifyCPU)
	r.reading = max(0, seconds(c.LocalP50)-r.file)
	r.fixed = seconds(c.HubExchangeCPU / 2)
	if free := cfg.HubCores - r.result.HubIdleCores; free > 0 {
		r.hubCost = max(1, micros(float64(r.fixed)/free))
	}
	r.meet(30, random)
	if o := cfg.Outage; o != nil && r.outageEnd() < r.until {
		r.queue.push(event{at: r.outageEnd(), what: comeback, to: uint32(o.Home)})
	}
	for i := range r.homes {
		r.next(uint32(i), r.from)
	}
	for e, ok := r.queue.pop(); ok; e, ok = r.queue.pop() {
		r.do(e)
	}
	r.finish()
	return &r.result
}

func (r *run) do(e event) {
	r.result.Events++
	switch e.what {
	case arrival:
		r.next(e.to, e.at)
		if !r.away(int(e.to), e.at) {
			r.begin(e.to, e.at)
		}
	case submit:
		r.submit(e)
	case questionAtHub:
		if to := r.there(e); r.away(to, e.at) {
			e.waited = true
			r.homes[to].waiting = append(r.homes[to].waiting, e)
			return
		}
		x := r.sizes[e.step]
		e.what, e.at = questionThere, r.pass(e, x.Question, x.QuestionRead)+r.homes[r.there(e)].delay
		r.queue.push(e)
	case questionThere:
		r.arrive(e)
	case answerAtHub:
		x := r.sizes[e.step]
		e.what, e.at = answerHere, r.pass(e, x.Answer, x.AnswerRead)+r.homes[r.here(e)].delay
		r.queue.push(e)
	case answerHere:
		h := &r.homes[r.here(e)]
		h.count(Flow{Received: 1, ReceivedBytes: int64(r.sizes[e.step].AnswerRead), SentBytes: int64(r.cfg.Costs.Control.Ack)})
		r.serve(h, e.at, r.receipt)
		r.result.Receipted++
	case comeback:
		r.comeBack(&r.homes[e.to], e.at)
	}
}

func (r *run) here(e event) int {
	if e.step.back() {
		return int(r.homeOf[e.to])
	}
	return int(r.homeOf[e.from])
}

func (r *run) there(e event) int {
	if e.step.back() {
		return int(r.homeOf[e.from])
	}
	return int(r.homeOf[e.to])
}

// The rate is nearly constant between two arrivals.
func (r *run) next(home uint32, now micros) {
	h, b := &r.homes[home], r.cfg.Behavior
	rate := float64(h.agents) * (b.Handoffs + b.Texts) / float64(day) * r.activity(h, now)
	if at := now + micros(r.random.ExpFloat64()/rate) + 1; at < r.until {
		r.queue.push(event{at: at, what: arrival, to: home})
	}
}

func (r *run) begin(home uint32, now micros) {
	b, h := r.cfg.Behavior, &r.homes[home]
	e := event{at: now, from: uint32(h.first + r.random.IntN(h.agents)), step: text}
	e.to = r.recipient(e.from, r.random)
	if r.random.Float64() < b.Handoffs/(b.Handoffs+b.Texts) {
		e.step = offer
		if r.random.Float64() < b.OpenOffers {
			e.step = openOffer
		}
	}
	r.submit(e)
}

func (r *run) serve(h *home, now, cost micros) micros {
	h.free = max(h.free, now) + cost
	h.busy += cost
	return h.free
}

func (r *run) submit(e event) {
	r.result.Steps++
	e.begun = e.at
	here, there := r.here(e), r.there(e)
	h := &r.homes[here]
	filed := r.serve(h, e.at, r.file)
	switch {
	case e.step >= openOffer:
		r.open(e, h, filed)
	case here == there:
		r.result.Local++
		r.store(h, e.step, r.cfg.Costs.LocalHandoff, r.cfg.Costs.LocalText)
		r.read(e, filed, &r.result.LocalOnline, &r.result.LocalOffline)
	default:
		r.result.Remote++
		if e.step == offer {
			h.shared++
			r.homes[there].shared++
		}
		r.store(h, e.step, side(e.step, r.cfg.Costs.OfferedHere, r.cfg.Costs.OfferedThere), r.cfg.Costs.TextHere)
		if !r.knows(uint16(here), r.reader(e)) {
			filed += r.search(h)
		}
		r.knows(uint16(there), r.writer(e))
		h.count(Flow{Sent: 1, SentBytes: int64(r.sizes[e.step].Question), ReceivedBytes: int64(r.cfg.Costs.Control.Stored)})
		e.what, e.at = questionAtHub, filed+h.delay
		r.queue.push(e)
	}
}

func side(s step, offerer, offeree Stored) Stored {
	if s.back() {
		return offeree
	}
	return offerer
}

func (r *run) reader(e event) uint32 {
	if e.step.back() {
		return e.from
	}
	return e.to
}

func (r *run) writer(e event) uint32 {
	if e.step.back() {
		return e.to
	}
	return e.from
}

const stepsOfHandoff = 3

// Each step adds the rows of a measured handoff, divided by its steps.
func (r *run) store(h *home, s step, handoff, message Stored) {
	if s == text {
		h.rows.Rows += message.Rows
		h.rows.Bytes += message.Bytes
		return
	}
	h.rows.Rows += handoff.Rows / stepsOfHandoff
	h.rows.Bytes += handoff.Bytes / stepsOfHandoff
}

func (h *home) count(f Flow) { h.work = h.work.plus(f) }

// pass lets the hub store and forward a message, and returns the time of the forwarding. A message
// in the batch of an earlier event costs the hub no extra message.
func (r *run) pass(e event, in, out int) micros {
	control := r.cfg.Costs.Control
	r.result.HubWork = r.result.HubWork.plus(Flow{Sent: 1, Received: 1, SentBytes: int64(in + control.Ack), ReceivedBytes: int64(out + control.Stored)})
	if e.riding {
		return max(r.hub, e.at)
	}
	r.peak(e.at, 1, int64(in+out+control.Ack+control.Stored))
	return r.hubDelay(e.at, 1)
}

// hubDelay returns the time at which the last of the messages has passed.
func (r *run) hubDelay(now micros, messages int64) micros {
	if r.hubCost == 0 {
		return now + r.fixed // no queue: the hub is overloaded
	}
	r.hub = max(r.hub, now) + r.hubCost*micros(messages)
	return r.hub + r.fixed
}

func (r *run) peak(at micros, messages, bytes int64) {
	i := min(int((at-r.from)/minute), len(r.result.minutes)-1)
	r.result.minutes[i] = r.result.minutes[i].plus(Flow{Sent: messages, SentBytes: bytes})
}

func (r *run) search(h *home) micros {
	asked := 1
	if r.cfg.Protocol.SearchesAll {
		asked = r.cfg.Homes - 1
	}
	h.searches++
	r.result.Searches++
	x := r.cfg.Costs.Exchanges[Mailbox]
	r.bulk(h.free, int64(asked), x)
	rounds := (asked + searchAtOnce - 1) / searchAtOnce
	farthest := seconds(r.cfg.Behavior.NetworkMost)
	return micros(rounds) * (2*(h.delay+farthest) + 2*r.fixed)
}

// The homes count these exchanges at the end.
func (r *run) bulk(now micros, exchanges int64, x Exchange) {
	control := r.cfg.Costs.Control
	passed := Flow{
		Sent: 2, Received: 2, SentBytes: int64(x.Question + x.Answer + 2*control.Ack), ReceivedBytes: int64(x.QuestionRead + x.AnswerRead + 2*control.Stored),
	}.times(exchanges)
	r.result.HubBulk = r.result.HubBulk.plus(passed)
	r.hubDelay(now, passed.Sent)
	r.peak(now, passed.Sent, passed.Bytes())
}

// open sends a step of an offer to anyone to all homes. The recipient represents the agent that
// claims it.
func (r *run) open(e event, h *home, filed micros) {
	h.opens[e.step-openOffer]++
	r.result.Opens[e.step-openOffer]++
	r.bulk(filed, int64(r.openTo()), r.sizes[e.step])
	h.rows.Rows += r.cfg.Costs.OpenHere.Rows / stepsOfHandoff
	h.rows.Bytes += r.cfg.Costs.OpenHere.Bytes / stepsOfHandoff
	if e.step == openComplete {
		return
	}
	at, _ := r.online(e.to, filed)
	wait := r.cfg.Behavior.SlowAnswer
	if e.step == openClaim {
		wait = r.cfg.Behavior.Work
	}
	e.step++
	r.later(e, at+seconds(wait*r.random.ExpFloat64()))
}

func (r *run) openTo() int {
	if most := r.cfg.Protocol.OpenTo; most > 0 {
		return min(most, r.cfg.Homes-1)
	}
	return r.cfg.Homes - 1
}

// The step is dropped if the run ends first.
func (r *run) later(e event, at micros) {
	if at < r.until {
		e.what, e.at, e.riding, e.waited = submit, at, false, false
		r.queue.push(e)
	}
}

func (r *run) arrive(e event) {
	there := &r.homes[r.there(e)]
	x, control := r.sizes[e.step], r.cfg.Costs.Control
	there.count(Flow{
		Sent: 1, SentBytes: int64(x.Answer + control.Ack), Received: 1, ReceivedBytes: int64(x.QuestionRead + control.Stored),
	})
	filed := r.serve(there, e.at, r.file)
	r.result.Arrived++
	r.result.Relay.add(filed - e.begun)
	r.store(there, e.step, side(e.step, r.cfg.Costs.OfferedThere, r.cfg.Costs.OfferedHere), r.cfg.Costs.TextThere)
	if e.waited {
		r.result.Drained = max(r.result.Drained, (filed - r.outageEnd()).Seconds())
	}
	r.read(e, filed, &r.result.Online, &r.result.Offline)
	e.what, e.at = answerAtHub, filed+there.delay
	r.queue.push(e)
}

func (r *run) read(e event, filed micros, online, offline *Histogram) {
	b := r.cfg.Behavior
	at, always := r.online(r.reader(e), filed)
	at += r.reading
	switch {
	case at >= r.until && at > filed+r.reading:
		r.result.InInbox++
		return
	case at > filed+r.reading:
		offline.add(at - e.begun)
	default:
		online.add(at - e.begun)
	}
	r.result.Read++
	wait := b.SlowAnswer
	if always {
		wait /= 10
	}
	switch e.step {
	case offer:
		switch u := r.random.Float64(); {
		case u < b.Accepted:
			e.step = accept
		case u < b.Accepted+b.Declined:
			e.step = decline
		default:
			return
		}
	case accept:
		e.step, wait = complete, b.Work
	case text, decline, complete, openOffer, openClaim, openComplete:
		return
	}
	r.later(e, at+seconds(wait*r.random.ExpFloat64()))
}

// Seconds returns a time in seconds.
func (m micros) Seconds() float64 { return float64(m) / float64(second) }

func (r *run) outageEnd() micros {
	return micros(r.cfg.Outage.Hour+r.cfg.Outage.Hours) * hour
}

func (r *run) away(home int, now micros) bool {
	o := r.cfg.Outage
	return o != nil && home == o.Home && now >= micros(o.Hour)*hour && now < r.outageEnd()
}

// comeBack empties the streams of a returned home: first the greetings left there by other homes,
// then the steps that wait at other homes, in batches. They arrive once the home has greeted the
// others.
func (r *run) comeBack(h *home, now micros) {
	p := r.cfg.Protocol
	r.result.Stale = int64(float64(r.cfg.Homes-1) * float64(r.cfg.Outage.Hours) * 3600 / p.Redial * float64(p.RedialCopies))
	r.result.Waited = int64(len(h.waiting))
	r.serve(h, now, micros(r.result.Stale)*2*r.receipt)
	r.hubDelay(now, r.result.Stale)
	batches := make([]int, r.cfg.Homes)
	for _, e := range h.waiting {
		from := r.here(e)
		if e.riding = batches[from]%batchSteps != 0; !e.riding {
			r.result.Batches++
		}
		batches[from]++
		e.at = now + second
		r.queue.push(e)
	}
	h.waiting = nil
}
