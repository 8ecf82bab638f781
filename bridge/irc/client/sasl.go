package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"
	"github.com/xdg-go/scram"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
)

// spec: freeq "SASL ATPROTO-CHALLENGE"; ircv3 sasl-3.1; RFC 7677
const (
	mechChallenge = "ATPROTO-CHALLENGE" // proves a DID by a signature of the server's challenge
	mechExternal  = "EXTERNAL"          // proves the DID bound to a TLS certificate
	mechPlain     = "PLAIN"             // proves the DID of a password, or the DID bound to a token
	mechScram     = "SCRAM-SHA-256"     // proves the DID of a password
)

const (
	challengeTime = time.Minute
	// The interval of re-verifying a login, because wake-ups may be lost. A verification takes about
	// 0.1 ms: 10,000 clients take 2% of a core.
	proofAgain  = time.Minute
	maxFailures = 3    // per connection
	chunkBytes  = 400  // per line of a response
	maxAnswer   = 8192 // bytes of a whole response, encoded
)

// spec: ircv3 sasl-3.1
const (
	rplLoggedIn    = "900"
	rplSASLSuccess = "903"
	errSASLFail    = "904"
	errSASLTooLong = "905"
	errSASLAborted = "906"
	errSASLAlready = "907"
	rplSASLMechs   = "908"
)

type login struct {
	mechanism string
	challenge []byte
	until     time.Time
	answer    string
	// revoked reports whether a successful proof has become invalid. It is nil for irrevocable
	// proofs.
	revoked func(ctx context.Context) bool

	scram *scram.ServerConversation // nil for other mechanisms
	did   federation.DID
	name  string
	reply string // to the last SCRAM message; "" once the login is over
}

func (u *user) mechanisms() []string {
	all := []string{mechChallenge, mechScram}
	if u.certified() {
		all = append(all, mechExternal)
	}
	if u.secret() {
		all = append(all, mechPlain)
	}
	return all
}

func (u *user) secret() bool { return u.secure || loopback(u.addr) }

// spec: ircv3 sasl-3.1, sasl-3.2
func (s *server) onAuthenticate(ctx context.Context, u *user, m ircmsg.Message) {
	said := m.Params[0]
	switch {
	case u.account != "":
		s.reply(u, errSASLAlready, "You have already authenticated using SASL")
	case said == "*":
		u.login = nil
		s.reply(u, errSASLAborted, "SASL authentication aborted")
	case u.login == nil:
		s.beginLogin(ctx, u, strings.ToUpper(said))
	case len(said) > chunkBytes || len(u.login.answer)+len(said) > maxAnswer:
		u.login = nil
		s.reply(u, errSASLTooLong, "SASL message too long")
	case len(said) == chunkBytes:
		u.login.answer += said
	default:
		if said != "+" {
			u.login.answer += said
		}
		s.finishLogin(ctx, u)
	}
}

// Each attempt counts against the rate limit of the client's address before any key lookup.
func (s *server) beginLogin(ctx context.Context, u *user, mechanism string) {
	switch {
	case !s.link.deps.Logins.Take(u.from, time.Now()):
		s.link.ports.Metrics.Limited.WithLabelValues(network).Inc()
		s.fail(u, "AUTHENTICATE", federation.RateLimited.Upper(), "*", federation.RateLimited.Sentence())
		s.loginFailed(u, ": too many logins from your address; wait a little")
	case !slices.Contains(u.mechanisms(), mechanism):
		s.reply(u, rplSASLMechs, strings.Join(u.mechanisms(), ","), "are available SASL mechanisms")
		s.loginFailed(u, "")
	case mechanism == mechChallenge:
		challenge := newChallenge(s.name, time.Now())
		u.login = &login{mechanism: mechanism, challenge: challenge, until: time.Now().Add(challengeTime)}
		s.send(u, newMessage("", "AUTHENTICATE", base64.RawURLEncoding.EncodeToString(challenge)))
	case mechanism == mechScram:
		attempt := &login{mechanism: mechanism}
		var err error
		attempt.scram, err = credential.NewScram(func(name string) (federation.Password, error) {
			kept, name, err := s.password(ctx, name)
			attempt.did, attempt.name = kept.DID, name
			return kept, err
		})
		if err != nil {
			s.loggedIn(ctx, u, "", "", err)
			return
		}
		u.login = attempt
		s.send(u, newMessage("", "AUTHENTICATE", "+"))
	default:
		u.login = &login{mechanism: mechanism}
		s.send(u, newMessage("", "AUTHENTICATE", "+"))
	}
}

// The session ID begins with the gateway's name, so that the signer can see the purpose of its
// signature.
func newChallenge(home string, now time.Time) []byte {
	var nonce, session [32]byte
	_, _ = rand.Read(nonce[:])
	_, _ = rand.Read(session[:])
	return fmt.Appendf(nil, `{"session_id":%q,"nonce":%q,"timestamp":%d}`,
		home+":"+hex.EncodeToString(session[:16]), base64.RawURLEncoding.EncodeToString(nonce[:]), now.Unix())
}

type proof struct {
	DID       string `json:"did"`
	Signature string `json:"signature"` // base64url
	Method    string `json:"method"`    // "crypto", or absent
}

// The client's reader calls finishLogin. A challenge is valid once.
func (s *server) finishLogin(ctx context.Context, u *user) {
	attempt := u.login
	u.login = nil
	var check func() (federation.DID, string, error)
	switch attempt.mechanism {
	case mechExternal:
		check = func() (federation.DID, string, error) { return s.byCertificate(ctx, u.wire) }
	case mechPlain:
		check = func() (federation.DID, string, error) { return s.byPlain(ctx, attempt) }
	case mechScram:
		check = func() (federation.DID, string, error) { return s.byScram(attempt) }
	default:
		check = func() (federation.DID, string, error) { return s.proved(ctx, attempt) }
	}
	answer := u.answer
	u.answer = nil
	u.work = func() {
		did, name, err := check()
		goesOn := err == nil && attempt.reply != ""
		if err == nil && !goesOn {
			err = s.mayLogIn(ctx, did)
		}
		var markers map[string]time.Time
		if err == nil && !goesOn {
			markers = s.markersOf(ctx, did)
		}
		s.post(func() {
			u.work = nil
			u.answer = answer
			if goesOn {
				u.login = attempt
				s.authenticate(u, attempt.reply)
			} else {
				if err == nil {
					u.markers = markers
				}
				s.loggedIn(ctx, u, did, name, err)
				s.watchProof(ctx, u, attempt)
			}
			s.close(u)
		})
	}
}

type loginError string

func (e loginError) Error() string { return string(e) }

func (s *server) proved(ctx context.Context, attempt *login) (federation.DID, string, error) {
	raw, err := decode64(attempt.answer)
	var p proof
	if err == nil {
		err = federation.ExactJSON(raw)
	}
	if err == nil {
		err = federation.DecodeJSON(raw, &p)
	}
	if err != nil {
		return "", "", loginError("the answer is not JSON in base64")
	}
	did, err := federation.ParseDID(p.DID)
	signature, badSignature := decode64(p.Signature)
	switch {
	case err != nil:
		return "", "", loginError("the answer names no DID")
	case badSignature != nil || p.Method != "" && p.Method != "crypto":
		return "", "", loginError("want a signature of the challenge")
	case time.Now().After(attempt.until):
		return "", "", loginError("the challenge is too old")
	case did == s.link.ports.Home.DID():
		return "", "", loginError("the DID is that of the gateway itself")
	}
	if err := s.mayLogIn(ctx, did); err != nil { // before the key lookup
		return "", "", err
	}
	switch _, verdict, err := s.link.deps.Keys.Proved(ctx, did, attempt.challenge, signature); verdict {
	case federation.Valid:
		attempt.revoked = func(ctx context.Context) bool {
			_, verdict, _ := s.link.deps.Keys.Proved(ctx, did, attempt.challenge, signature)
			return verdict == federation.Invalid
		}
		return did, string(did), nil
	case federation.Invalid:
		if err != nil {
			return "", "", loginError("the signature is not by a key of the DID: " + err.Error())
		}
		return "", "", loginError("the signature is not by a key of the DID")
	case federation.Unverifiable:
		return "", "", fmt.Errorf("get the keys of %s: %w", did, err)
	default:
		return "", "", err
	}
}

func decode64(text string) ([]byte, error) {
	return base64.RawURLEncoding.DecodeString(strings.NewReplacer("+", "-", "/", "_").Replace(strings.TrimRight(text, "=")))
}

func (s *server) loggedIn(ctx context.Context, u *user, did federation.DID, name string, err error) {
	if u.over {
		return
	}
	if refused, ok := errors.AsType[loginError](err); ok {
		s.loginFailed(u, ": "+string(refused))
		return
	}
	if err != nil { // proves nothing against it
		s.log.LogAttrs(ctx, slog.LevelWarn, "login not judged", slog.Any("err", err))
		s.reply(u, errSASLFail, "SASL authentication failed: try again later")
		return
	}
	s.logIn(ctx, u, did, name)
	s.reply(u, rplSASLSuccess, "SASL authentication successful")
}

func (s *server) logIn(ctx context.Context, u *user, did federation.DID, name string) {
	u.account, u.bound = did, name
	if s.accounts[did] == nil {
		s.accounts[did] = map[*user]bool{}
	}
	s.accounts[did][u] = true
	if remote := s.remotes.users[did]; remote != nil {
		s.removeRemote(remote, "logged in on this server")
	}
	s.reply(u, rplLoggedIn, u.whole(), string(did), "You are now logged in as "+string(did))
	if u.welcome {
		s.spread(u.newMessage("ACCOUNT", string(did)), having(capAccountNotify, s.observers(u, true)))
	}
	s.renamed(u) // the author of its text changes
	s.startReplay(ctx, u)
}

// watchProof re-verifies a login when sessions of its DID end, and at each [proofAgain]. It
// disconnects a client with an invalid proof.
func (s *server) watchProof(ctx context.Context, u *user, attempt *login) {
	if u.over || u.account == "" || attempt.revoked == nil {
		return
	}
	did := u.account
	ctx, u.unwatch = context.WithCancel(ctx)
	s.running.Go(func() {
		wake, stop := s.link.ports.PubSub.Subscribe(bridge.SessionsTopic(string(did)))
		defer stop()
		again := time.NewTicker(proofAgain)
		defer again.Stop()
		for {
			if attempt.revoked(ctx) {
				s.post(func() { s.quit(u, "The key or password of your login is not valid any more") })
				return
			}
			select {
			case <-wake:
			case <-again.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

// The client may have no nick yet.
func (u *user) whole() string { return u.named() + "!" + orStar(u.ident) + "@" + u.host }

// Too many failures close the connection.
func (s *server) loginFailed(u *user, why string) {
	s.reply(u, errSASLFail, "SASL authentication failed"+why)
	if u.failures++; u.failures >= maxFailures {
		s.quit(u, "Too many failed logins")
	}
}

// spec: freeq-keys "MSGSIG"
func (s *server) onMsgsig(ctx context.Context, u *user, m ircmsg.Message) {
	raw, _ := decode64(m.Params[0]) // nil is an invalid key
	key, err := federation.ParsePublicKey(raw)
	switch {
	case u.account == "":
		s.fail(u, "MSGSIG", "NOT_AUTHENTICATED", "", "Log in first")
		return
	case errors.Is(err, federation.ErrWeakKey):
		s.fail(u, "MSGSIG", "INVALID_KEY", "", "A key of small order proves nothing; make a new one")
		return
	case err != nil:
		s.fail(u, "MSGSIG", "INVALID_KEY", "", "Want an Ed25519 public key, 32 bytes in base64url")
		return
	}
	report := federation.KeyReport{
		DID: u.account, Origin: federation.ClientKey, Via: s.link.Name(), At: time.Now(),
		Keys: []federation.ReportedKey{{Public: key}},
	}
	answer := u.answer
	u.answer = nil
	u.work = func() {
		err := s.link.deps.Keys.Learn(ctx, report)
		s.post(func() {
			u.work, u.answer = nil, answer
			s.learnt(ctx, u, err)
			s.close(u)
		})
	}
}

func (s *server) learnt(ctx context.Context, u *user, err error) {
	switch {
	case err == nil:
		s.send(u, newMessage(s.name, "MSGSIG", "OK"))
	case errors.Is(err, federation.ErrTooManyKeys):
		s.fail(u, "MSGSIG", "INVALID_KEY", "", "Too many keys are registered for this DID")
	default:
		s.log.LogAttrs(ctx, slog.LevelError, "key not registered", slog.Any("err", err))
		s.fail(u, "MSGSIG", "TEMPORARILY_UNAVAILABLE", "", "The key could not be kept; try again later")
	}
}

// A client can present a certificate only if TLS ends at this listener.
func (u *user) certified() bool {
	s, ok := u.wire.(*stream)
	if ok {
		_, ok = s.conn.(*tls.Conn)
	}
	return ok
}

// fingerprint returns a SHA-256 in lower-case hexadecimal, or "".
func fingerprint(w wire) string {
	stream, ok := w.(*stream)
	if !ok {
		return ""
	}
	secured, ok := stream.conn.(*tls.Conn)
	if !ok || len(secured.ConnectionState().PeerCertificates) == 0 {
		return ""
	}
	sum := sha256.Sum256(secured.ConnectionState().PeerCertificates[0].Raw)
	return hex.EncodeToString(sum[:])
}

func (s *server) byCertificate(ctx context.Context, w wire) (federation.DID, string, error) {
	name := fingerprint(w)
	if name == "" {
		return "", "", loginError("the connection has no certificate")
	}
	return s.boundTo(ctx, name, "no DID is bound to the certificate "+name)
}

// A line shorter than 400 bytes is the last.
//
// spec: ircv3 sasl-3.1
func (s *server) authenticate(u *user, text string) {
	encoded := base64.StdEncoding.EncodeToString([]byte(text))
	for ; len(encoded) >= chunkBytes; encoded = encoded[chunkBytes:] {
		s.send(u, newMessage("", "AUTHENTICATE", encoded[:chunkBytes]))
	}
	if encoded == "" {
		encoded = "+"
	}
	s.send(u, newMessage("", "AUTHENTICATE", encoded))
}

const errWrongPassword = loginError("the account or the password is wrong")

// For an account without a password, password returns a hash that matches no text. The name of an
// account is a DID, or is bound to one.
func (s *server) password(ctx context.Context, name string) (federation.Password, string, error) {
	did, err := federation.ParseDID(name)
	if err != nil {
		var bound federation.BoundName
		bound, err = s.link.ports.Bindings.Bound(ctx, s.link.Name(), name)
		if errors.Is(err, federation.ErrNotFound) {
			bound, err = s.link.ports.Bindings.Bound(ctx, s.link.Name(), fold(name))
		}
		did, name = bound.DID, cmp.Or(bound.Name, name)
	}
	var kept federation.Password
	if err == nil {
		kept, err = s.link.deps.Record.Password(ctx, did)
	}
	if errors.Is(err, federation.ErrNotFound) {
		return credential.NoPassword(s.link.deps.TokenKey, cmp.Or(string(did), name)), name, nil
	}
	return kept, name, err
}

func (s *server) passwordless(did federation.DID) func(ctx context.Context) bool {
	return func(ctx context.Context) bool {
		_, err := s.link.deps.Record.Password(ctx, did)
		return errors.Is(err, federation.ErrNotFound)
	}
}

func (s *server) byScram(attempt *login) (federation.DID, string, error) {
	answer, as := attempt.answer, attempt.scram.AuthzID()
	attempt.answer, attempt.reply = "", ""
	if attempt.scram.Valid() {
		if as != "" && fold(as) != fold(attempt.name) && as != string(attempt.did) {
			return "", "", loginError("the password belongs to " + string(attempt.did))
		}
		attempt.revoked = s.passwordless(attempt.did)
		return attempt.did, attempt.name, nil
	}
	raw, err := base64.StdEncoding.DecodeString(answer)
	if err != nil {
		return "", "", loginError("the answer is not in base64")
	}
	reply, err := attempt.scram.Step(string(raw))
	switch {
	case err == nil:
		attempt.reply = reply
		return "", "", nil
	case reply == scram.ErrUnknownUser: // the record cannot be read, see password
		return "", "", err
	case reply == scram.ErrInvalidProof:
		return "", "", errWrongPassword
	}
	return "", "", loginError("the message does not follow SCRAM-SHA-256")
}

// spec: RFC 4616
func (s *server) byPlain(ctx context.Context, attempt *login) (federation.DID, string, error) {
	raw, err := base64.StdEncoding.DecodeString(attempt.answer)
	parts := strings.Split(string(raw), "\x00")
	if err != nil || len(parts) != 3 {
		return "", "", loginError("the answer is no name and password in base64")
	}
	as, name, text := parts[0], parts[1], parts[2]
	did, err := s.byToken(ctx, name, text)
	if errors.Is(err, federation.ErrNotFound) {
		var kept federation.Password
		kept, name, err = s.password(ctx, name)
		if did = kept.DID; err == nil && !credential.MatchesPassword(kept, text) {
			err = errWrongPassword
		}
		attempt.revoked = s.passwordless(did)
	}
	if err == nil && as != "" && fold(as) != fold(name) && as != string(did) {
		err = loginError(name + " stands for " + string(did))
	}
	return did, name, err
}

// byToken returns [federation.ErrNotFound] if the text is not a token. Reading an inbox changes
// deliveries, so the token needs the scope for changing them.
func (s *server) byToken(ctx context.Context, name, text string) (federation.DID, error) {
	token, err := s.link.deps.Record.Token(ctx, federation.DigestToken(text), time.Now())
	switch {
	case err != nil:
		return "", err
	case token.Name != name:
		return "", loginError("the token has another name")
	case !token.Scope.Covers(federation.OperateScope):
		return "", loginError("the token has scope " + string(token.Scope) + ", and this needs " + string(federation.OperateScope))
	}
	did, _, err := s.boundTo(ctx, name, "no DID is bound to the token "+name)
	return did, err
}

func (s *server) boundTo(ctx context.Context, name, why string) (federation.DID, string, error) {
	bound, err := s.link.ports.Bindings.Bound(ctx, s.link.Name(), name)
	if errors.Is(err, federation.ErrNotFound) {
		return "", "", loginError(why)
	}
	return bound.DID, name, err
}
