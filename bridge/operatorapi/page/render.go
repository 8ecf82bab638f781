package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"log/slog"
	"net/http"
	"path"
	"strings"

	"baton/federation"
)

//go:embed files
var embedded embed.FS

// file is the script or the style sheet.
type file struct {
	text      []byte
	mediaType string
	hashed    string // its name with its hash, which a browser may keep for ever
}

// files are the embedded files, and the template of every page.
type files struct {
	all  map[string]file
	page *template.Template
}

// readFiles reads the embedded files. A template that cannot be parsed is a mistake of the program.
func readFiles() files {
	f := files{all: map[string]file{}, page: template.Must(template.ParseFS(embedded, "files/*.html"))}
	for name, mediaType := range map[string]string{"baton.js": "text/javascript; charset=utf-8", "baton.css": "text/css; charset=utf-8"} {
		text, err := embedded.ReadFile("files/" + name)
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(text)
		extension := path.Ext(name)
		f.all[name] = file{text, mediaType, strings.TrimSuffix(name, extension) + "-" + hex.EncodeToString(sum[:8]) + extension}
	}
	return f
}

// routes returns the handlers of the files by name, each also under its hashed name.
func (f files) routes() map[string]http.HandlerFunc {
	all := map[string]http.HandlerFunc{}
	for name, each := range f.all {
		all[name] = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", each.mediaType)
			_, _ = w.Write(each.text) // the client is gone
		}
		all[each.hashed] = func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
			all[name](w, r)
		}
	}
	return all
}

// layout is what the template of every page is given.
type layout struct {
	view

	Home          federation.HomeID
	Script, Style string
	Address       string // of the page, for its events; "" where nothing changes
	CSRF          string // "" without a session
	Token         federation.OperatorToken
	Nav           []navLink
}

// navLink is a link of the navigation.
type navLink struct {
	Title, Href string
	Current     bool
}

// render writes a page, for the session or for a browser without one.
func (p *Page) render(w http.ResponseWriter, r *http.Request, status int, s *session, v view) {
	l := layout{view: v, Home: p.deps.Home, Script: prefix + p.files.all["baton.js"].hashed, Style: prefix + p.files.all["baton.css"].hashed}
	if s != nil {
		l.CSRF, l.Token = s.csrf, s.token
		for _, each := range lists() {
			l.Nav = append(l.Nav, navLink{each.Title, prefix + each.Name, each.Title == v.Title})
		}
		if v.Confirm == nil && v.Alert == "" {
			l.Status, l.Address = p.sessions.told(s.id), r.URL.RequestURI()
		}
	}
	var text bytes.Buffer
	if err := p.files.page.ExecuteTemplate(&text, "page.html", l); err != nil {
		p.deps.Log.LogAttrs(r.Context(), slog.LevelError, "operator page not written", slog.String("network", "operator"), slog.Any("err", err))
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes()) // the client is gone
}
