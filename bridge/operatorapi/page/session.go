package page

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"sync"
	"time"

	"baton/federation"
)

// cookieName is the cookie of a session.
const cookieName = "baton_session"

// sessionLife is how long a session lasts at most. It ends earlier with its token.
const sessionLife = 12 * time.Hour

// maxSessions bounds the sessions of a process: operators have a few each. The oldest one ends
// where there are more.
const maxSessions = 1 << 10

// session is the login of one browser.
type session struct {
	id    [32]byte                 // digest of the cookie
	token federation.OperatorToken // as the record had it when the request came
	csrf  string
}

// kept is what the process keeps of a session.
type kept struct {
	token  [32]byte // digest
	csrf   string
	began  time.Time
	ends   time.Time
	notice string // told with the next page
}

// sessions are the sessions of the process. They end with it.
type sessions struct {
	mu  sync.Mutex
	all map[[32]byte]*kept
}

func newSessions() *sessions { return &sessions{all: map[[32]byte]*kept{}} }

// begin makes a session for a token and returns its cookie.
func (s *sessions) begin(token federation.OperatorToken, now time.Time) *http.Cookie {
	text, ends := rand.Text(), now.Add(sessionLife)
	if token.Expires.Before(ends) {
		ends = token.Expires
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeRoom(now)
	s.all[sha256.Sum256([]byte(text))] = &kept{token: token.Digest, csrf: rand.Text(), began: now, ends: ends}
	return &http.Cookie{ //nolint:gosec // the login sets Secure where the request came over TLS
		Name: cookieName, Value: text, Path: "/", Expires: ends, MaxAge: int(ends.Sub(now).Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
}

// makeRoom drops the sessions that are over, and the oldest one where there are still too many.
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

// find returns the session of a cookie that is not over, with the digest of its token.
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

// end ends a session.
func (s *sessions) end(id [32]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, id)
}

// tell keeps a notice for the next page of a session.
func (s *sessions) tell(id [32]byte, notice string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if each := s.all[id]; each != nil {
		each.notice = notice
	}
}

// told returns the notice of a session, once.
func (s *sessions) told(id [32]byte) string {
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

// sameText compares secrets in constant time.
func sameText(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
