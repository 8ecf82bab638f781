package spanningtree

import (
	"context"
	"fmt"

	"github.com/ergochat/irc-go/ircmsg"

	"baton/bridge"
	"baton/federation"
)

// logIn notes to which account a user of the network is logged in; "" is none. An account
// leads to the user that logged in to it last. A user that leaves an account does
// not act as its DID any more.
func (t *tree) logIn(uuid, account string) {
	u := t.users[uuid]
	if u == nil {
		return
	}
	if t.accounts[u.account] == uuid {
		delete(t.accounts, u.account)
	}
	if u.account != "" && u.account != account {
		t.unsign(uuid)
		u.signer = ""
	}
	u.account = account
	if account != "" {
		t.accounts[account] = uuid
	}
}

// onAccount notes what the network says of the account of one of its users. It is the
// word of that network: bindings say which DID an account stands for.
func (s *session) onAccount(m ircmsg.Message) {
	account := ""
	if len(m.Params) > 2 {
		account = m.Params[2]
	}
	s.net.logIn(m.Params[0], account)
	s.meetAgain()
	if s.linked && account != "" {
		s.link.ports.Wakes.Wake(bridge.OutboxTopic(s.link.cfg.Name)) // a private step may wait for the user
	}
}

// accounts returns the accounts of this network that stand for a DID.
func (l *Link) accounts(ctx context.Context, did federation.DID) ([]string, error) {
	bound, err := l.ports.Bindings.Of(ctx, did)
	if err != nil {
		return nil, fmt.Errorf("look up accounts of %s: %w", did, err)
	}
	var accounts []string
	for _, b := range bound {
		if b.Network == l.cfg.Name {
			accounts = append(accounts, b.Name)
		}
	}
	return accounts, nil
}

// party returns how to find a DID on this network. The nick counts only where the DID has
// no account: any user can take a nick.
func (l *Link) party(ctx context.Context, did federation.DID, nick string) (party, error) {
	accounts, err := l.accounts(ctx, did)
	if len(accounts) > 0 {
		nick = ""
	}
	return party{did: did, accounts: accounts, nick: nick}, err
}
