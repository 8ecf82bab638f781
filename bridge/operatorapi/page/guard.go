package page

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"baton/bridge"
	"baton/federation"
)

// maxFormBytes bounds a form: a reason, and a name.
const maxFormBytes = 16 << 10

// policy is the Content-Security-Policy of every answer.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guarded sets the headers of every answer, and refuses changes that another site asks for.
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

// foreign returns why a change was asked for by another site, "" where it was not. A client that is
// no browser sends neither header. A page under Referrer-Policy no-referrer sends its forms with the
// origin "null", as other sites can: then Sec-Fetch-Site decides.
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

// handler serves a request of a session.
type handler func(w http.ResponseWriter, r *http.Request, s session)

// reading serves a page to a session, and leads other browsers to the login.
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

// changing serves a form of a session, and refuses every other one.
func (p *Page) changing(serve handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, err := p.session(r)
		switch {
		case errors.Is(err, federation.ErrNotFound):
			p.fail(w, r, nil, http.StatusForbidden, "The session is over. Log in again.")
		case err != nil:
			p.failWith(w, r, nil, err)
		case !sameText(r.PostFormValue("csrf"), s.csrf):
			p.fail(w, r, &s, http.StatusForbidden, "This form does not belong to your session. Load its page again.")
		default:
			serve(w, r, s)
		}
	})
}

// session returns the session of a request. It reads the token from the record, and returns
// [federation.ErrNotFound] for a request without a session and for one that has ended with its token.
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

// failWith answers with an error of the API.
func (p *Page) failWith(w http.ResponseWriter, r *http.Request, s *session, err error) {
	status, detail := problem(err)
	if status >= http.StatusInternalServerError {
		p.deps.Log.LogAttrs(r.Context(), slog.LevelError, "operator page not answered", slog.String("network", "operator"),
			slog.String("path", r.URL.Path), slog.Any("err", err))
	}
	p.fail(w, r, s, status, detail)
}

// problem returns the status and the text that an error is shown with.
func problem(err error) (status int, detail string) {
	p := bridge.ProblemOf(err)
	return p.Status, p.Detail
}

// fail answers with a status and a sentence.
func (p *Page) fail(w http.ResponseWriter, r *http.Request, s *session, status int, detail string) {
	p.render(w, r, status, s, view{Title: http.StatusText(status), Alert: plain(detail)})
}
