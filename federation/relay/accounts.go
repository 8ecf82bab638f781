package relay

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"text/template"

	"github.com/nats-io/nkeys"

	"baton/federation"
)

//go:embed accounts.conf.tmpl
var accountsText string

// Account is a home at a hub that several operators share.
type Account struct {
	Home   federation.HomeID
	Public string // of its nkey, a user key: "U..."
}

// NewSeed returns a new nkey seed, a line of text.
func NewSeed() ([]byte, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, fmt.Errorf("make nkey: %w", err)
	}
	defer pair.Wipe()
	seed, err := pair.Seed()
	if err != nil {
		return nil, fmt.Errorf("make nkey: %w", err)
	}
	return append(seed, '\n'), nil
}

// PublicOf returns the public key of a seed that [NewSeed] made.
func PublicOf(seed []byte) (string, error) {
	pair, err := nkeys.ParseDecoratedUserNKey(seed)
	if err != nil {
		return "", fmt.Errorf("read nkey: %w", err)
	}
	defer pair.Wipe()
	return pair.PublicKey()
}

// WriteAccounts returns the configuration of a NATS server that homes meet at and that
// trusts none of them, with one account for each.
//
// The streams to a home are in its own account, and it alone makes and reads them.
// What another home may do there is one thing: put messages into the stream that has
// its name as the source, which the account of the destination exports to it and to
// nobody else. So no home can publish as another, read what is for another, or delete
// it; what a home does in its own account harms itself.
func WriteAccounts(accounts []Account) (string, error) {
	if len(accounts) < 2 {
		return "", errors.New("want two homes at least")
	}
	filled := struct {
		Port, PayloadBytes, StreamBytes int
		Consumer, User, Server          string
		Accounts                        []hubAccount
	}{hubPort, hubPayloadBytes, hubBytes, hubConsumer, userInfoSubject, serverInfoSubject, nil}
	seen := map[string]bool{}
	for _, a := range accounts {
		account := hubAccount{Name: token(a.Home), Home: a.Home, Public: a.Public, MostBytes: (len(accounts) - 1) * hubBytes}
		if !a.Home.Valid() || seen[account.Name] {
			return "", fmt.Errorf("want the names of homes, each once, such as a.example, not %q", a.Home)
		}
		seen[account.Name] = true
		for _, other := range accounts {
			if other.Home != a.Home {
				account.Others = append(account.Others, hubOther{
					Name: token(other.Home), In: streamName(a.Home, other.Home),
					From: hubSubject(a.Home, other.Home), To: hubSubject(other.Home, a.Home),
				})
			}
		}
		filled.Accounts = append(filled.Accounts, account)
	}
	text, err := template.New("accounts").Parse(accountsText)
	if err != nil {
		return "", fmt.Errorf("write accounts: %w", err)
	}
	var out strings.Builder
	if err := text.Execute(&out, filled); err != nil {
		return "", fmt.Errorf("write accounts: %w", err)
	}
	return out.String(), nil
}

// What a server that homes meet at is set to.
const (
	hubPort         = 4222
	hubPayloadBytes = maxBatchBytes + 64<<10 // with headers
)

// hubAccount is one account as the template has it.
type hubAccount struct {
	Name, Public string
	Home         federation.HomeID
	MostBytes    int // of all its streams
	Others       []hubOther
}

// hubOther is another home, seen from an account.
type hubOther struct {
	Name string // of its account
	In   string // the stream with what comes from it
	From string // the subjects of that
	To   string // the subjects of what goes to it
}
