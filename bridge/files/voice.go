package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/baton-gateway/baton/bridge/files/directory"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/voicefile"
)

// The folders of a voice directory. The folder of a file is the state of its handoff.
const (
	pendingFolder  = "handoff"
	claimedFolder  = "claimed"
	archiveFolder  = "archive"
	rejectedFolder = "rejected"
)

func voiceFolders() []string {
	return []string{pendingFolder, claimedFolder, archiveFolder, rejectedFolder}
}

// VoiceLink is one voice directory.
type VoiceLink struct {
	*base

	cfg     VoiceConfig
	secrets voiceSecrets
	found   map[string]sighting             // by path; owned by the goroutine in Run
	paths   map[federation.HandoffID]string // only of files whose handoff is on record; owned by the goroutine in Run
	taken   map[string]string               // by key, claimed by any gateway; owned by the goroutine in Run
	moved   chan struct{}
}

type sighting struct {
	stamp   directory.Stamp
	handoff federation.HandoffID // zero for none
	to      string               // "" without a valid HMAC
	id      string
	key     string // "" unless the file is claimed
	again   bool
}

func newVoiceLink(cfg VoiceConfig, secrets voiceSecrets, b *base) *VoiceLink {
	return &VoiceLink{base: b, cfg: cfg, secrets: secrets, moved: make(chan struct{})}
}

// Run implements [bridge.Link]. It watches the directory until ctx ends or the directory disappears.
func (l *VoiceLink) Run(ctx context.Context, up func()) error {
	l.found, l.paths, l.taken = map[string]sighting{}, map[federation.HandoffID]string{}, map[string]string{}
	defer l.deps.Hub.leave(l)
	return l.serve(ctx, func() {
		if l.deps.Hub != nil && len(l.secrets.hub) > 0 {
			l.deps.Hub.change(func(links []*VoiceLink) []*VoiceLink { return append(links, l) })
		}
		up()
	}, l.cfg.Dir, l)
}

// A move between file systems is not atomic, so prepare refuses folders on several file systems.
func (l *VoiceLink) prepare() ([]string, error) {
	root, err := directory.FolderAt(l.cfg.Dir)
	if err != nil {
		return nil, err
	}
	paths := []string{l.cfg.Dir}
	for _, name := range voiceFolders() {
		path := filepath.Join(l.cfg.Dir, name)
		if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // G301: the agents of the directory are other users
			return nil, err
		}
		folder, err := directory.FolderAt(path)
		if err != nil {
			return nil, err
		}
		if folder.Device != root.Device {
			return nil, fmt.Errorf("%s is on another file system than %s: moves between the two are not atomic", path, l.cfg.Dir)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

func (l *VoiceLink) scan(ctx context.Context) error {
	there := map[string]bool{}
	// Files move forward in the order of the folders, so the scan misses none. Claimed files are
	// also read before the pending files, so that a file is claimed only once.
	folders := append([]string{claimedFolder}, voiceFolders()...)
	if len(l.found) == 0 {
		folders = append([]string{claimedFolder, archiveFolder, rejectedFolder}, voiceFolders()...)
	}
	for _, name := range folders {
		folder := filepath.Join(l.cfg.Dir, name)
		settled := name == archiveFolder || name == rejectedFolder
		err := directory.Each(folder, func(name string, stamp directory.Stamp) error {
			path := filepath.Join(folder, name)
			there[path] = true
			if was, known := l.found[path]; known && !was.again && (settled || was.stamp == stamp) {
				return nil // files of a settled folder no longer change
			}
			return l.look(ctx, path)
		})
		if err != nil {
			return l.broken(ctx, err)
		}
	}
	for path := range l.found {
		if !there[path] {
			l.forget(path)
		}
	}
	return nil
}

func (l *VoiceLink) forget(path string) {
	if id := l.found[path].handoff; l.paths[id] == path {
		delete(l.paths, id)
	}
	if key := l.found[path].key; l.taken[key] == path {
		delete(l.taken, key)
	}
	delete(l.found, path)
}

func (l *VoiceLink) look(ctx context.Context, path string) error {
	if !strings.HasSuffix(path, ".json") && !isDotfile(path) || directory.IsTemp(filepath.Base(path)) || filepath.Dir(path) == l.cfg.Dir {
		return nil // a sidecar, an unfinished file, or a file outside the folders
	}
	stamp, err := directory.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		l.forget(path)
		return nil
	}
	if err != nil {
		return broken(err)
	}
	was, known := l.found[path]
	if known && was.stamp == stamp && !was.again {
		return nil
	}
	seen := sighting{stamp: stamp}
	l.found[path] = seen
	if isDotfile(path) {
		if !known {
			l.unread(ctx, path, "dotfile", errDotfile)
		}
		return nil
	}
	content, err := directory.Read(path, voicefile.MaxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		l.forget(path)
		return nil
	}
	if odd, ok := errors.AsType[*directory.OddError](err); ok {
		l.unread(ctx, path, odd.Reason, odd)
		return nil
	}
	sealed, err := voicefile.Read(content)
	if err != nil {
		l.unread(ctx, path, "json", err)
		return nil
	}
	if err := l.process(ctx, voice{path: path, content: content, sealed: sealed}); err != nil {
		if seen, still := l.found[path]; still {
			seen.again = true
			l.found[path] = seen
		}
		return l.fault(ctx, path, err)
	}
	return nil
}

var errDotfile = errors.New("the name begins with a dot")

func isDotfile(path string) bool { return strings.HasPrefix(filepath.Base(path), ".") }

type voice struct {
	path    string
	content []byte
	sealed  voicefile.Sealed
}

func (v voice) folder() string { return filepath.Base(filepath.Dir(v.path)) }

// process ignores files to agents that the gateway does not represent, unless the gateway wrote
// them.
func (l *VoiceLink) process(ctx context.Context, v voice) error {
	if _, ours := l.agents[v.sealed.To]; ours {
		return l.judgeInbound(ctx, v)
	}
	file, err := v.sealed.Trusted(l.secretsOf(v.sealed))
	if err != nil {
		return nil //nolint:nilerr // it is the file of other agents
	}
	l.see(v.path, federation.HandoffID{}, file)
	return l.judgeOutbound(ctx, v, file)
}

func (l *VoiceLink) see(path string, id federation.HandoffID, file voicefile.File) {
	seen := l.found[path]
	seen.handoff, seen.to, seen.id = id, file.To, file.ID
	l.found[path] = seen
	if !id.IsZero() {
		l.paths[id] = path
	}
	close(l.moved)
	l.moved = make(chan struct{})
}

func (l *VoiceLink) took(path, key string) {
	seen := l.found[path]
	seen.key = key
	l.found[path], l.taken[key] = seen, path
}

// wasTaken returns false if the claimant put the file back.
func (l *VoiceLink) wasTaken(file voicefile.File) (bool, error) {
	if path, known := l.taken[file.Key]; known && filepath.Base(path) != file.ClaimName(l.ports.Home) {
		if _, err := directory.Stat(path); err == nil {
			return true, nil
		}
	}
	taken, claims := false, strings.TrimSuffix(file.SharedClaimName(), ".json")+"-"
	err := directory.Each(filepath.Join(l.cfg.Dir, claimedFolder), func(name string, _ directory.Stamp) error {
		taken = taken || strings.HasPrefix(name, claims) && name != file.ClaimName(l.ports.Home)
		return nil
	})
	return taken, broken(err)
}

func (l *VoiceLink) secretsOf(s voicefile.Sealed) []string {
	return l.secrets.pairs[pairOf(s.From, s.To)]
}

// Carries implements [bridge.Link]. The link carries offers to an agent known only to the directory,
// and steps of handoffs between two parties named in the directory.
func (l *VoiceLink) Carries(ctx context.Context, ev federation.Event, after federation.View) (bool, error) {
	if after.Offeree == "" || ev.Verb == federation.Confirm {
		return false, nil // a file needs a recipient
	}
	to, err := l.nameOf(ctx, after.Offeree)
	if err != nil || to == "" {
		return false, err
	}
	_, represented := l.agents[to]
	if ev.Verb == federation.Offer {
		return !represented, nil
	}
	if ev.Arrival.Link == l.name {
		return false, nil
	}
	from, err := l.nameOf(ctx, after.Offerer)
	return from != "", err
}

// Deliver implements [bridge.Link]. An offer creates a file; any other step moves the file of its
// handoff. It returns nil once the change is on disk.
func (l *VoiceLink) Deliver(ctx context.Context, d federation.Delivery) error {
	return l.ask(ctx, func(ctx context.Context) error {
		if d.Entry.Event.Verb == federation.Offer {
			if err := l.writeOffer(ctx, d); err != nil {
				return err
			}
		} else if err := l.follow(ctx, d.View); err != nil {
			return err
		}
		return l.lapse(ctx, d, d.View.Others(d.Entry.Event.Actor())...)
	})
}

func (l *VoiceLink) follow(ctx context.Context, view federation.View) error {
	if err := l.keepStarted(ctx, view); err != nil {
		return err
	}
	path, known := l.paths[view.ID]
	if !known {
		return nil
	}
	content, err := directory.Read(path, voicefile.MaxBytes)
	if errors.Is(err, fs.ErrNotExist) { // another program is moving it: the next scan finds it
		return away(l.name, err)
	}
	if err != nil {
		return err
	}
	sealed, err := voicefile.Read(content)
	if err != nil {
		return err
	}
	file, err := sealed.Trusted(l.secretsOf(sealed))
	if err != nil {
		return err
	}
	v := voice{path: path, content: content, sealed: sealed}
	if _, ours := l.agents[file.To]; ours && view.State == federation.Assigned {
		return l.accepted(ctx, file)
	}
	if err := l.place(ctx, v, file, view); err != nil || !view.Over {
		return err
	}
	return l.releaseFile(ctx, file)
}
