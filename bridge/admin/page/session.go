package page

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

const cookieName = "baton_session"

// sessionLife bounds a session, which may end earlier with its token.
const sessionLife = 12 * time.Hour

// maxSessions bounds the sessions of a process. Beyond it, the oldest one ends.
const maxSessions = 1 << 10

type session struct {
	id    [32]byte                 // digest of the cookie
	token federation.OperatorToken // as read at the start of the request
	csrf  string
}

type storedSession struct {
	token  [32]byte
	csrf   string
	began  time.Time
	ends   time.Time
	notice string // for the next page
}

type sessions struct {
	mu  sync.Mutex
	all map[[32]byte]*storedSession
}

func (s *sessions) begin(token federation.OperatorToken, now time.Time) *http.Cookie {
	text, ends := rand.Text(), now.Add(sessionLife)
	if token.Expires.Before(ends) {
		ends = token.Expires
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeRoom(now)
	s.all[sha256.Sum256([]byte(text))] = &storedSession{token: token.Digest, csrf: rand.Text(), began: now, ends: ends}
	return &http.Cookie{ //nolint:gosec // the login sets Secure if the request came over TLS
		Name: cookieName, Value: text, Path: "/", Expires: ends, MaxAge: int(ends.Sub(now).Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
}

// makeRoom drops the ended sessions, and then the oldest one if there are still too many.
func (s *sessions) makeRoom(now time.Time) {
	var oldest [32]byte
	for id, each := range s.all {
		if !now.Before(each.ends) {
			delete(s.all, id)
		} else if first, ok := s.all[oldest]; !ok || each.began.Before(first.began) {
			oldest = id
		}
	}
	if len(s.all) >= maxSessions {
		delete(s.all, oldest)
	}
}

func (s *sessions) find(cookie string, now time.Time) (found session, token [32]byte, ok bool) {
	id := sha256.Sum256([]byte(cookie))
	s.mu.Lock()
	defer s.mu.Unlock()
	each := s.all[id]
	if each == nil || !now.Before(each.ends) {
		return session{}, token, false
	}
	return session{id: id, csrf: each.csrf}, each.token, true
}

func (s *sessions) end(id [32]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, id)
}

func (s *sessions) notify(id [32]byte, notice string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if each := s.all[id]; each != nil {
		each.notice = notice
	}
}

func (s *sessions) takeNotice(id [32]byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	each := s.all[id]
	if each == nil {
		return ""
	}
	notice := each.notice
	each.notice = ""
	return notice
}

func (p *Page) loginForm(w http.ResponseWriter, r *http.Request) {
	p.renderLogin(w, r, http.StatusOK, r.URL.Query().Get("next"), "")
}

func (p *Page) renderLogin(w http.ResponseWriter, r *http.Request, status int, next, alert string) {
	p.render(w, r, status, nil, view{Title: "Log in", Alert: plain(alert), Login: &loginView{Next: below(next)}})
}

func (p *Page) login(w http.ResponseWriter, r *http.Request) {
	next := r.PostFormValue("next")
	token, err := p.deps.Check.Check(r, strings.TrimSpace(r.PostFormValue("token")))
	if err != nil {
		status, detail := problem(err)
		p.deps.Log.LogAttrs(r.Context(), slog.LevelInfo, "operator request refused", slog.String("network", "operator"),
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

func (p *Page) logout(w http.ResponseWriter, r *http.Request, s session) {
	p.sessions.end(s.id)
	http.SetCookie(w, &http.Cookie{Name: cookieName, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil}) //nolint:gosec // Secure if the request came over TLS
	http.Redirect(w, r, prefix+"login", http.StatusSeeOther)
}

// below returns an address below /ui/ on this host, or the first page for any other address.
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

const maxFormBytes = 16 << 10

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guarded sets the headers of every answer, and refuses cross-site changes.
func (p *Page) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			if why := foreign(r); why != "" {
				p.deps.Log.LogAttrs(r.Context(), slog.LevelInfo, "form of another site refused", slog.String("network", "operator"),
					slog.String("path", r.URL.Path), slog.String("reason", why))
				p.fail(w, r, nil, http.StatusForbidden, "This form was sent from another site.")
				return
			}
			r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
		}
		next.ServeHTTP(w, r)
	})
}

// foreign returns the reason why a change counts as a cross-site request, or "". Clients other than
// browsers send neither header. Under Referrer-Policy no-referrer, a page sends its forms with the
// origin "null", as other sites can. Sec-Fetch-Site then decides.
func foreign(r *http.Request) string {
	origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	own := site == "same-origin" || site == "none"
	if site != "" && !own {
		return "sec-fetch-site " + site
	}
	if origin == "" || origin == "null" && own {
		return ""
	}
	if u, err := url.Parse(origin); err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
		return "origin " + origin
	}
	return ""
}

type handler func(w http.ResponseWriter, r *http.Request, s session)

// reading serves a page to a session, and redirects other browsers to the login.
func (p *Page) reading(serve handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, err := p.session(r)
		switch {
		case errors.Is(err, federation.ErrNotFound):
			http.Redirect(w, r, prefix+"login?"+url.Values{"next": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
		case err != nil:
			p.failWith(w, r, nil, err)
		default:
			serve(w, r, s)
		}
	})
}

// changing serves a form to its session, and refuses other requests.
func (p *Page) changing(serve handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, err := p.session(r)
		switch {
		case errors.Is(err, federation.ErrNotFound):
			p.fail(w, r, nil, http.StatusForbidden, "The session is over. Log in again.")
		case err != nil:
			p.failWith(w, r, nil, err)
		case subtle.ConstantTimeCompare([]byte(r.PostFormValue("csrf")), []byte(s.csrf)) == 0:
			p.fail(w, r, &s, http.StatusForbidden, "This form does not belong to your session. Load its page again.")
		default:
			serve(w, r, s)
		}
	})
}

// The token is read from the record. The error is [federation.ErrNotFound] without a session, or if
// its token has ended.
func (p *Page) session(r *http.Request) (session, error) {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return session{}, federation.ErrNotFound
	}
	now := time.Now()
	s, digest, ok := p.sessions.find(cookie.Value, now)
	if !ok {
		return session{}, federation.ErrNotFound
	}
	s.token, err = p.deps.Tokens.Token(r.Context(), digest, now)
	if errors.Is(err, federation.ErrNotFound) {
		p.sessions.end(s.id)
	}
	return s, err
}

func (p *Page) failWith(w http.ResponseWriter, r *http.Request, s *session, err error) {
	status, detail := problem(err)
	if status >= http.StatusInternalServerError {
		p.deps.Log.LogAttrs(r.Context(), slog.LevelError, "operator page not answered", slog.String("network", "operator"),
			slog.String("path", r.URL.Path), slog.Any("err", err))
	}
	p.fail(w, r, s, status, detail)
}

func problem(err error) (status int, detail string) {
	p := bridge.ProblemOf(err)
	return p.Status, p.Detail
}

func (p *Page) fail(w http.ResponseWriter, r *http.Request, s *session, status int, detail string) {
	p.render(w, r, status, s, view{Title: http.StatusText(status), Alert: plain(detail)})
}
