package main_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// retired maps the former exported names of a folder to the standard terms that replaced them.
var retired = map[string]map[string]string{
	"federation": {
		"Stretch": "TimelineQuery", "Said": "TimelineEntry", "Mark": "Position", "Hold": "LeaseToken", "Withheld": "PausedQueue",
		"Free": "Remaining", "Try": "Attempt", "MaxTries": "MaxAttempts", "Offence": "Misbehavior", "OffenceKind": "MisbehaviorKind",
		"StrangerError": "NewDIDLimitError", "GivenUpError": "DeadLetterError", "Place": "ChannelRef", "Given": "CompletedDelivery",
		"Event.Said": "ShownAt", "InboxLimits.Free": "Remaining",
		"Arrival.Abroad": "RemoteVenue", "Arrival.Command": "ViaCommand", "Arrival.Party": "ActingFor", "Arrival.Accepted": "AcceptedFrom",
	},
	"federation/home":     {"Home.GiveUp": "ExpireUndelivered", "Home.Ruled": "FileRuled"},
	"federation/identity": {"AtHand": "CachedKeys", "KeySource.AtHand": "Cached", "ErrNotAtHand": "ErrNotCached", "Timed": "Instrumented", "NewTimed": "NewInstrumented"},
	"federation/relay":    {"Meeting": "NATSConfig", "MeetingText": "NATSText", "Wakes": "PubSub", "Peer.ReportOffence": "ReportMisbehavior"},
	"federation/store/deliveries": {
		"Outboxes.Given": "ListCompleted", "Outboxes.GiveUp": "EndWaiting", "Rows.LetGo": "Unlock", "Rows.Bury": "MarkDead", "Rows.PeerTook": "MarkDelivered",
	},
	"federation/store/handoffs": {
		"Logs.Mark": "PositionOf", "Logs.Ruled": "ResolvePending", "Logs.Await": "KeepPending", "Logs.Awaiting": "ListPending",
		"Logs.AwaitingIn": "ListPendingIn", "Logs.Due": "ListDue",
	},
	"federation/store/inboxes": {"Inboxes.Lapse": "ExpireUnread", "Inboxes.LapseMessages": "ExpireUnreadMessages"},
	"bridge": {
		"Placer": "ChannelLink", "Teller": "RefusalNotifier", "Loser": "DisconnectNotifier", "Losing": "DisconnectSignal",
		"NewLosing": "NewDisconnectSignal", "Returner": "ReconnectNotifier", "Wakes": "PubSub", "Gatherer": "MembershipLink",
		"Dismisser": "ClientCloser", "Forgetful": "LossReporter", "FromHomes": "PeerIngress",
	},
	"bridge/irc":                {"Outlive": "WithGrace"},
	"bridge/agents/participant": {"Access": "Service"},
	"bridge/server":             {"Gateway.Ruled": "FileRuled", "Gateway.GiveUp": "RejectPending"},
}

func TestNameLaw(t *testing.T) {
	t.Parallel()
	for folder, names := range retired {
		for _, name := range declaredIn(t, filepath.Join("..", "..", folder)) {
			if term := names[name]; term != "" {
				t.Errorf("%s declares %s, want %s", folder, name, term)
			}
		}
	}
	if !slices.Contains(declaredIn(t, "../../federation"), "Arrival.RemoteVenue") {
		t.Error("no field is found")
	}
	if !slices.Contains(declaredIn(t, "../../federation/home"), "Home.FileRuled") {
		t.Error("no method is found")
	}
}

// declaredIn returns the package-level names of a folder, and its methods and fields as Type.Name.
func declaredIn(t *testing.T, folder string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != folder {
			return filepath.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, declaration := range source.Decls {
			names = append(names, namesOf(declaration)...)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func namesOf(declaration ast.Decl) []string {
	var names []string
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		receiver := ""
		if d.Recv != nil {
			ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					receiver = cmp.Or(receiver, id.Name+".")
				}
				return true
			})
		}
		names = append(names, receiver+d.Name.Name)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, id := range s.Names {
					names = append(names, id.Name)
				}
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
				var members *ast.FieldList
				switch t := s.Type.(type) {
				case *ast.StructType:
					members = t.Fields
				case *ast.InterfaceType:
					members = t.Methods
				default:
					continue
				}
				for _, member := range members.List {
					for _, id := range member.Names {
						names = append(names, s.Name.Name+"."+id.Name)
					}
				}
			}
		}
	}
	return names
}
