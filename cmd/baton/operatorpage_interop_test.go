//go:build interop

package main_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// screenshotsVar names the folder for screenshots of a run; if empty, none are
// kept.
const screenshotsVar = "BATON_SCREENSHOTS"

// browser is a tab of Debian's Chromium.
type browser struct {
	ctx  context.Context //nolint:containedctx // chromedp keeps the tab in it
	base string
}

// newBrowser starts a browser that ends with the test.
func newBrowser(t *testing.T, base string) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.ExecPath("chromium"), chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1280, 800))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // the first call starts the browser, which ends with its context
		t.Fatal(err)
	}
	return &browser{ctx, base}
}

// runs runs an action of the browser, which must succeed, and returns its value.
func runs[T any](t *testing.T, b *browser, action chromedp.Action[T]) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
		t.Fatalf("%v; the page says:\n%s", err, text)
	}
	return value
}

func reads[T any](t *testing.T, b *browser, expression string) T {
	t.Helper()
	return runs(t, b, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// opens goes to a page.
func (b *browser) opens(t *testing.T, path string) {
	t.Helper()
	runs(t, b, chromedp.Navigate(b.base+path))
}

// awaits waits until an expression holds in the page, also after the page made way for another.
func (b *browser) awaits(t *testing.T, expression string) {
	t.Helper()
	await(t, expression, func() bool {
		holds, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](expression))
		return err == nil && holds
	})
}

// says waits until the page has a text in an element.
func (b *browser) says(t *testing.T, selector, text string) {
	t.Helper()
	b.awaits(t, fmt.Sprintf("[...document.querySelectorAll(%q)].some(e => e.textContent.includes(%q))", selector, text))
}

// named is an expression for the one link, button or field with an accessible name.
func named(name string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("a, button, input, select, summary")].filter(e => (e.labels?.[0] ?? e).textContent.replace(/\s+/g, " ").trim() === %q)`, name)
}

// clicks activates the link or button with an accessible name with the mouse.
func (b *browser) clicks(t *testing.T, name string) {
	t.Helper()
	b.awaits(t, named(name)+".length === 1")
	reads[bool](t, b, named(name)+`[0].click(), true`)
}

// tabs moves the focus with the keyboard until it is at the element with an accessible name, and
// checks that the focus can be seen.
func (b *browser) tabs(t *testing.T, name string) {
	t.Helper()
	b.awaits(t, named(name)+".length === 1")
	for range 200 {
		runs(t, b, chromedp.KeyEvent(kb.Tab))
		if reads[bool](t, b, named(name)+"[0] === document.activeElement") {
			if !reads[bool](t, b, `getComputedStyle(document.activeElement).outlineStyle !== "none"`) {
				t.Errorf("the focus cannot be seen at %q", name)
			}
			return
		}
	}
	t.Fatalf("the keyboard does not lead to %q", name)
}

func (b *browser) types(t *testing.T, keys string) {
	t.Helper()
	runs(t, b, chromedp.KeyEvent(keys))
}

// reasons writes a reason into the form of an action.
func (b *browser) reasons(t *testing.T, reason string) {
	t.Helper()
	b.awaits(t, `document.readyState === "complete" && document.querySelector("#reason") !== null`)
	reads[bool](t, b, fmt.Sprintf(`document.querySelector("#reason").value = %q, true`, reason))
}

// shoots keeps a screenshot.
func (b *browser) shoots(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv(screenshotsVar)
	if dir == "" {
		return
	}
	picture := runs(t, b, chromedp.FullScreenshot(100))
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (b *browser) logsIn(t *testing.T, token string) {
	t.Helper()
	b.opens(t, "/")
	b.awaits(t, `document.activeElement.id === "token"`)
	b.types(t, token+kb.Enter)
	b.says(t, "h1", "Links")
}

func TestOperatorPageIsAccessibleInANarrowWindow(t *testing.T) {
	v, finished, _ := populated(t)
	b := newBrowser(t, "http://"+v.admin)
	b.opens(t, "/ui/login")
	axe, err := os.ReadFile(filepath.Join(os.Getenv("BATON_CLIENTS"), "node", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	checkAccess(t, b, string(axe), "login")
	b.logsIn(t, v.operatorToken(t, "admin"))
	pages := []string{
		"overview", "sessions", "feeds?link=lab", "act/dead/all/drop?reason=operator", "links", "links/lab", "feeds", "handoffs", "handoffs/" + finished, "dead", "dead/1", "peers", "keys", "policy", "audit", "webhooks", "blocks", "bindings", "top", "pair", "act/feeds/lab/hold", "act/dead/1/drop",
	}
	for _, scheme := range []string{"light", "dark"} {
		b.prefers(t, scheme)
		for _, width := range []int64{1280, 390, 360} {
			runs(t, b, chromedp.EmulateViewport(width, 800))
			for _, name := range pages {
				b.opens(t, "/ui/"+name)
				at := fmt.Sprintf("%s-%d-%s", strings.NewReplacer("/", "-", "?", "-").Replace(name), width, scheme)
				if reads[bool](t, b, "document.documentElement.scrollWidth > document.documentElement.clientWidth") {
					t.Errorf("%s scrolls sideways", at)
				}
				if got := reads[int](t, b, `document.querySelectorAll("h1, [role=alert]").length`); got != 1 {
					t.Errorf("%s has %d headings and alerts", at, got)
				}
				if width != 360 {
					b.shoots(t, at)
				}
				checkAccess(t, b, string(axe), at)
			}
		}
	}
}

func (b *browser) prefers(t *testing.T, scheme string) {
	t.Helper()
	runs(t, b, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

// checkAccess reports the serious findings of axe-core on the open page.
func checkAccess(t *testing.T, b *browser, axe, at string) {
	t.Helper()
	runs(t, b, chromedp.Evaluate[chromedp.Void](axe))
	found := reads[string](t, b, `axe.run().then(r => r.passes.length === 0 ? "nothing was checked" : JSON.stringify(r.violations.filter(
		v => v.impact === "serious" || v.impact === "critical").map(v => [v.id, v.nodes.map(n => n.html + " " + n.failureSummary)])))`)
	if found != "[]" {
		t.Errorf("%s: %s", at, found)
	}
}

func TestOperatorPageActions(t *testing.T) {
	t.Parallel()
	v, finished, _ := populated(t)
	b := newBrowser(t, "http://"+v.admin)
	b.logsIn(t, v.operatorToken(t, "operate"))

	b.clicks(t, "Feeds")
	b.clicks(t, "Hold lab")
	b.says(t, "form p", "Dry run: 1 would change.")
	b.reasons(t, "their server moves")
	b.clicks(t, "Hold")
	b.says(t, "[role=status]", "lab is held.")
	b.says(t, "#s-shape td", "held: their server moves")
	b.clicks(t, "Release lab")
	b.reasons(t, "it has moved")
	b.clicks(t, "Release")
	b.says(t, "[role=status]", "lab is released.")

	b.clicks(t, "Dead letters")
	b.clicks(t, "1")
	b.says(t, "dt", "What to do")
	b.clicks(t, "Replay 1")
	b.reasons(t, "it is fine now")
	b.clicks(t, "Replay")
	b.says(t, "[role=status]", "1 is replayed.")
	b.says(t, "dt", "Replayed")

	b.clicks(t, "Handoffs")
	b.awaits(t, `document.querySelector("#search") !== null && document.readyState === "complete"`)
	reads[bool](t, b, `document.querySelector("#search").value = "sources three", document.querySelector("main form").requestSubmit(), true`)
	b.awaits(t, `location.search.includes("sources") && document.querySelectorAll("#r-handoffs tr").length === 1`)
	b.clicks(t, finished)
	b.says(t, "ol[aria-label=Timeline] li", "complete")
	b.says(t, "dd", "Cite three sources on U+202Ereversed")
	if reads[int](t, b, `document.querySelectorAll("main b").length`) != 0 {
		t.Error("the note of a step became markup")
	}
	var log struct {
		Items []struct{ What, Subject, Reason string }
	}
	v.asks(t, &log, "audit", "list", "--limit", "3")
	want := `[{dead replay 1 it is fine now} {feed release lab it has moved} {feed hold lab their server moves}]`
	if got := fmt.Sprint(log.Items); got != want {
		t.Errorf("the audit log has %s, want %s", got, want)
	}
}

func TestOperatorPageShowsAChangeWithinTwoSeconds(t *testing.T) {
	v, _, _ := populated(t)
	b := newBrowser(t, "http://"+v.admin)
	b.logsIn(t, v.operatorToken(t, "read"))
	b.opens(t, "/ui/handoffs")
	b.awaits(t, `document.querySelectorAll("#r-handoffs tr").length === 3`)
	reads[bool](t, b, `document.querySelector("#r-handoffs a").focus(), true`)
	read := reads[string](t, b, `document.activeElement.textContent`)
	var filed struct{ ID string }
	v.asks(t, &filed, "handoff", "offer", "--from", ann, "--open", "--channel", "#ops", "--title", "A live one")
	start := time.Now()
	b.says(t, "#r-handoffs tr", "A live one")
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("the page shows a change after %s", took)
	}
	if got := reads[string](t, b, `document.activeElement.textContent`); got != read {
		t.Errorf("the focus was at %q and is at %q", read, got)
	}
	if reads[int](t, b, named("Hold lab")+".length + "+named("Dial lab")+".length") != 0 {
		t.Error("an operator that may only read sees actions")
	}
}

func TestOperatorPageNeedsNoMouse(t *testing.T) {
	v, _, _ := populated(t)
	b := newBrowser(t, "http://"+v.admin)
	b.logsIn(t, v.operatorToken(t, "operate"))
	b.opens(t, "/ui/links")
	b.tabs(t, "Skip to content")
	b.types(t, kb.Enter)
	b.awaits(t, `document.activeElement.id === "content"`)
	b.tabs(t, "Dial lab")
	b.types(t, kb.Enter)
	b.says(t, "h1", "Dial lab")
	b.tabs(t, "Reason")
	b.types(t, "by hand"+kb.Enter)
	b.says(t, "[role=status]", "was already in that state")
	b.tabs(t, "Feeds")
	b.types(t, kb.Enter)
	b.says(t, "h1", "Feeds")
	b.tabs(t, "Log out")
	b.types(t, kb.Enter)
	b.says(t, "h1", "Log in")
}
