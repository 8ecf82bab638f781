package page

import (
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
)

// loginForm shows the form.
func (p *Page) loginForm(w http.ResponseWriter, r *http.Request) {
	p.renderLogin(w, r, http.StatusOK, r.URL.Query().Get("next"), "")
}

func (p *Page) renderLogin(w http.ResponseWriter, r *http.Request, status int, next, alert string) {
	p.render(w, r, status, nil, view{Title: "Log in", Alert: plain(alert), Login: &loginView{Next: below(next)}})
}

// login begins a session for a good token.
func (p *Page) login(w http.ResponseWriter, r *http.Request) {
	next := r.PostFormValue("next")
	token, err := p.deps.Check.Check(r, strings.TrimSpace(r.PostFormValue("token")))
	if err != nil {
		status, detail := problem(err)
		p.deps.Log.LogAttrs(r.Context(), slog.LevelInfo, "operator turned away", slog.String("network", "operator"),
			slog.String("path", r.URL.Path), slog.String("actor", r.RemoteAddr), slog.Any("err", err))
		p.renderLogin(w, r, status, next, detail)
		return
	}
	if old, err := p.session(r); err == nil {
		p.sessions.end(old.id)
	}
	cookie := p.sessions.begin(token, time.Now()) //nolint:gosec // a session without TLS is over loopback
	cookie.Secure = r.TLS != nil
	http.SetCookie(w, cookie)
	http.Redirect(w, r, below(next), http.StatusSeeOther)
}

// logout ends a session.
func (p *Page) logout(w http.ResponseWriter, r *http.Request, s session) {
	p.sessions.end(s.id)
	http.SetCookie(w, &http.Cookie{Name: cookieName, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil}) //nolint:gosec // Secure where the request came over TLS
	http.Redirect(w, r, prefix+"login", http.StatusSeeOther)
}

// below returns an address below /ui/ on this host, or the first page for any other.
func below(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || strings.Contains(next, `\`) {
		return first
	}
	if clean := path.Clean(u.Path); !strings.HasPrefix(clean, prefix) || clean != strings.TrimSuffix(u.Path, "/") || strings.HasPrefix(clean, prefix+"login") {
		return first
	}
	return (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}).String()
}
