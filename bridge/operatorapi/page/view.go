package page

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"baton/bridge/operatorapi/contract"
	"baton/bridge/operatorapi/text"
)

// view is what a page shows. Each text in it went through [plain].
type view struct {
	Title    string // the heading, and the first words of the title
	About    string // after the title, such as the name of a link
	Alert    string // an error
	Status   string // what an action did
	Login    *loginView
	Search   *searchView
	Sections []section
	Steps    *timeline
	Links    []link // to what belongs to the page, such as a passport
	Confirm  *confirmView
}

// loginView is the form of the login.
type loginView struct{ Next string }

// searchView is the form above a list.
type searchView struct {
	Text, State string
	States      []string
}

// section is a table, or details of one thing, and the command that prints the same.
type section struct {
	ID      string
	Table   *table
	Details []detail
	Command string
	Actions []link // that belong to no row
	Intro   string // before the actions
}

// table is a list.
type table struct {
	Caption string
	Columns []string
	Rows    []row
	Empty   string // said where there is no row
	Older   string // address of the next page, "" after the last
}

// row is one line of a table. Its key is that of the same row in a newer page.
type row struct {
	Key   string
	Cells []cell
}

// detail is one line about a thing.
type detail struct {
	Name  string
	Value cell
}

// cell is a value with its form.
type cell struct {
	Text  string
	Href  string
	Class string // for the style sheet: "num", "state", "heat2", "long"
	At    *moment
	Acts  []link
}

// moment is a time with its distance from now.
type moment struct{ Full, Short, Age string }

// link is a link whose accessible name is Verb and Name.
type link struct{ Verb, Name, Href string }

// timeline is the steps of a handoff.
type timeline struct {
	Steps []step
	Later string // address of the next steps, "" after the last
}

// step is one step of a timeline.
type step struct {
	Key, Verb, DID, By, Provenance, Verdict, Note string
	At                                            *moment
	Evidence                                      string // address
	Deliveries                                    []cell
	Signed                                        []detail
}

// plain returns a text in which a reader sees every character: control characters and those that
// change the direction of text are written as U+ and their number.
func plain(s string) string {
	hidden := func(r rune) bool {
		return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co) && r != zeroWidthJoiner && r != zeroWidthNonJoiner
	}
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			fmt.Fprintf(&b, "U+%04X", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Scripts and emoji need these two, and neither moves other text.
const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
)

// words returns a cell of text.
func words[T ~string](s T) cell { return cell{Text: plain(string(s))} }

// long returns a cell of text that may take several lines.
func long(s string) cell { return cell{Text: plain(s), Class: "long"} }

// linked returns a cell of text that leads to another page.
func linked(s, href string) cell { return cell{Text: plain(s), Href: href} }

// number returns a cell of a count.
func number[T int | int64 | uint64](n T) cell { return cell{Text: fmt.Sprint(n), Class: "num"} }

// state returns a cell of a state, whose word the style sheet may colour.
func state[T ~string](s T) cell {
	return cell{Text: plain(string(s)), Class: "state s-" + classWord(string(s))}
}

// classWord returns a word as part of the name of a class.
func classWord(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r == '-' {
			return r
		}
		return -1
	}, strings.ToLower(s))
}

// acts returns a cell of actions.
func acts(all ...link) cell { return cell{Class: "acts", Acts: all} }

// at returns a cell of a time, empty for none.
func at(m contract.Moment, now time.Time) cell {
	return cell{At: momentOf(m, now), Class: "at"}
}

// momentOf returns a time with its distance from now, nil for none.
func momentOf(m contract.Moment, now time.Time) *moment {
	if m.IsZero() {
		return nil
	}
	t := time.Time(m).UTC()
	age := text.Age(m, now) + " ago"
	if t.After(now) {
		age = "in " + text.Until(m, now)
	}
	return &moment{Full: m.String(), Short: t.Format("2006-01-02 15:04:05"), Age: age}
}

// about returns a detail.
func about(name string, value cell) detail { return detail{Name: name, Value: value} }
