package client

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
)

// The account has a new DID, and the gateway signs its steps.
//
// spec: ircv3 account-registration (draft)
func (s *server) onRegister(ctx context.Context, u *user, m ircmsg.Message) {
	if !s.link.cfg.AccountRegistration {
		s.reply(u, errUnknownCommand, m.Command, "Unknown command")
		return
	}
	account, text := clipParam(m.Params[0]), m.Params[2]
	refuse := func(code, sentence string) { s.fail(u, m.Command, code, account, sentence) }
	switch {
	case !u.welcome:
		refuse("COMPLETE_CONNECTION_REQUIRED", "Complete the connection first")
		return
	case u.account != "":
		refuse("ALREADY_AUTHENTICATED", "You are logged in to an account")
		return
	case m.Params[0] != "*" && fold(m.Params[0]) != fold(u.nick):
		refuse("ACCOUNT_NAME_MUST_BE_NICK", "The name of an account is the nick that you have now")
		return
	case !u.secret():
		refuse("UNACCEPTABLE_PASSWORD", "Others can read your connection. Connect with TLS, and choose another password than this one.")
		return
	}
	account = fold(u.nick)
	answer := u.answer
	u.answer = nil
	u.work = func() {
		did, err := s.newAccount(ctx, u, account, text)
		s.post(func() {
			u.work, u.answer = nil, answer
			switch {
			case err != nil:
				s.unregistered(ctx, refuse, err)
			case !u.over:
				s.send(u, textMessage(s.name, "REGISTER", "SUCCESS", account, "Your account is registered"))
				s.logIn(ctx, u, did, account)
				s.watchProof(ctx, u, &login{revoked: s.passwordless(did)})
			}
			s.close(u)
		})
	}
}

// newAccount blocks, so the owner must not call it.
func (s *server) newAccount(ctx context.Context, u *user, account, text string) (federation.DID, error) {
	_, err := s.link.ports.Bindings.Bound(ctx, s.link.Name(), account)
	switch {
	case err == nil:
		return "", federation.ErrTaken
	case !errors.Is(err, federation.ErrNotFound):
		return "", err
	}
	now := time.Now()
	if err := credential.CheckPassword(text); err != nil {
		return "", err
	}
	if s.link.deps.Enrolments.Wait(u.from, now) > 0 {
		return "", &federation.RefusalError{Code: federation.RateLimited}
	}
	did := s.link.ports.Signer.Kept("account:" + rand.Text()).DID
	kept, err := credential.NewPassword(did, text, now)
	if err != nil {
		return "", err
	}
	if err := s.link.deps.Meet(ctx, did, now); err != nil {
		return "", err
	}
	if err := s.link.deps.Record.KeepPassword(ctx, kept); err != nil {
		return "", err
	}
	// The binding is written last, so that the name is still free after a crash.
	err = s.link.deps.Record.BindName(ctx, federation.BoundName{Network: s.link.Name(), Name: account, DID: did, Vouch: true, Since: now})
	if err != nil {
		return "", errors.Join(err, s.link.deps.Record.DropPassword(ctx, did))
	}
	return did, nil
}

func (s *server) unregistered(ctx context.Context, refuse func(code, sentence string), err error) {
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		refuse("TEMPORARILY_UNAVAILABLE", refused.Sentence())
		return
	}
	switch {
	case errors.Is(err, federation.ErrTaken):
		refuse("ACCOUNT_EXISTS", "There is already an account with that name")
	case errors.Is(err, credential.ErrPassword):
		refuse("UNACCEPTABLE_PASSWORD", "That is no password: "+credential.ErrPassword.Error())
	default:
		s.log.LogAttrs(ctx, slog.LevelWarn, "account not registered", slog.Any("err", err))
		refuse("TEMPORARILY_UNAVAILABLE", "The account could not be registered; try again later")
	}
}
