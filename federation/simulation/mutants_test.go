package simulation_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mutant is a deliberate fault: a text of a source file and its replacement.
type mutant struct{ name, file, old, replacement string }

// mutants are faults that the oracle must find; the build tag mutants has the test.
var mutants = []mutant{
	// Faults that the simulation found.
	{
		"steps that had no route are not compared", "federation/store/homes/homes.go",
		"(d.name = ? OR d.name =", "(d.name = ? OR 1 = 0 AND d.name =",
	},
	{
		"a forwarded step of an unknown handoff is refused", "federation/relay/envelope.go",
		"return &federation.GapError{Want: ruled.Version}", "return federation.Refuse(ev, federation.WrongSender, \"\")",
	},
	// Deliberate faults.
	{
		"commits are not synced", "federation/store/engine/file.go",
		`"synchronous(FULL)"`, `"synchronous(OFF)"`,
	},
	{
		"a lost answer is taken for a receipt", "federation/relay/exchange.go",
		"a.done <- reply{err: err}", "a.done <- reply{result: result{Outcome: outcomeStored}}",
	},
	{
		"a ruling is not filed", "federation/relay/pendingrulings.go",
		"found, err := p.fileAll(ctx, pending.Event.ID, r.Steps)", "found, err := true, error(nil)",
	},
	{
		"the signature of a batch is not verified", "federation/relay/peerhandler.go",
		"verdict, err := h.Deps.Signer.Verify(ctx, asked.from, h.Deps.Now(), e.Body, e.Signature)", "verdict, err := federation.Valid, error(nil)",
	},
	{
		"a batch for another home is read", "federation/relay/wire.go",
		"return b, b.check(typeSteps, to)", "return b, nil",
	},
	{
		"a step is filed before its signature is verified", "federation/signing/verify.go",
		"ed25519.Verify(public, document, sig)", "public != nil",
	},
	{
		"the chain of a ruling is not compared", "federation/home/remote.go",
		"if federation.Link(s.Head, sub.Event.Signature.Document) != ruling.Chain {", "if false {",
	},
	{
		"a second history is a repetition", "federation/home/remote.go",
		"d.Action, d.Ruling, d.Version = Dispute, ruling, ruling.Version", "d.Action, d.Version = Repeat, ruling.Version",
	},
	{
		"a step enters no inbox", "federation/store/append.go",
		"for _, did := range f.Inboxes {\n\t\tif err := inboxes.Insert", "for _, did := range f.Inboxes[:0] {\n\t\tif err := inboxes.Insert",
	},
	{
		"a step enters no outbox", "federation/store/append.go",
		"for _, link := range f.Links {\n\t\tattempts", "for _, link := range f.Links[:0] {\n\t\tattempts",
	},
	{
		"the chain begins anew with each step", "federation/store/append.go",
		"sha256.Sum256(slices.Concat(prev, f.step.Document[:]))", "sha256.Sum256(f.step.Document[:])",
	},
	{
		"a step without a route is dropped", "federation/routing/recipients.go",
		"if at.Home != l.home && !submittedBy(name, ev) &&", "if name != Unrouted && at.Home != l.home && !submittedBy(name, ev) &&",
	},
	{
		"a failed delivery is settled", "federation/delivery/worker.go",
		"return w.failed(ctx, d, covered, a, err)", "return w.settle(ctx, d, covered, federation.Settlement{})",
	},
	{
		"a repeated step is judged again", "federation/home/decide.go",
		"case s.Filed != nil:\n\t\treturn Decision{Action: Repeat", "case false:\n\t\treturn Decision{Action: Repeat",
	},
	{
		"a pending step is not written", "federation/home/home.go",
		"if err = h.Record.KeepPending(written, federation.Pending{Event: d.Event, Home: d.Before.Home, Since: now}, d.Before.Version); err == nil {", "{",
	},
	{
		"the end of a handoff is not delivered", "federation/home/sweep.go",
		"to, err := h.route(ctx, d)", "to, err := federation.Fanout{}, error(nil)",
	},
	{
		"no handoff expires", "federation/home/sweep.go",
		"if windows[clock] == 0 {", "if windows[clock] > 0 {",
	},
	{
		"a restored home asks for nothing", "federation/relay/digest.go",
		"lacks = append(lacks, lack{reached.Handoff, view.Version})", "_ = lacks",
	},
	{
		"a restored home does not ask for its own steps", "federation/relay/digest.go",
		"lost = append(lost, lack{reached.Handoff, view.Version})", "_ = lost",
	},
	{
		"the start of another home is not noticed", "federation/relay/digest.go",
		"if boot == h.boot {", "if boot != h.boot {",
	},
	{
		"a claimed handoff can be claimed again", "federation/lifecycle/kinds.json",
		`"claim", "from": ["open"]`, `"claim", "from": ["open", "assigned"]`,
	},
	{
		"the entries of a moved mailbox are not sent", "federation/routing/move.go",
		"if err := l.peers.Deliver(ctx, moved.Home, federation.Delivery{Entry: lease.Entry, View: view}); err != nil {", "if err != nil {",
	},
}

// apply returns the source file with the fault.
func (m mutant) apply(t *testing.T, root string) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		t.Fatalf("%s has the text %d times: %s", m.file, n, m.old)
	}
	return strings.Replace(string(source), m.old, m.replacement, 1)
}

func TestMutantsApplyToTheirFiles(t *testing.T) {
	t.Parallel()
	for _, m := range mutants {
		m.apply(t, filepath.Join("..", ".."))
	}
}
