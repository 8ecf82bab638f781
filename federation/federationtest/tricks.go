package federationtest

import (
	_ "embed" // the table
	"fmt"
	"net/netip"
	"strings"
)

//go:embed tricks.txt
var tricks string

// Trick is an address that a hostile peer names to make this program reach into its own network.
// Each client for external addresses is tested with all of them.
type Trick struct {
	Name     string
	Address  string
	Answers  [][]netip.Addr // to successive lookups of the host; the last one repeats
	Location string         // target of the host's redirect; empty if no request may reach the host
}

// Tricks returns the table, with the port of a listener on loopback that no request may reach.
func Tricks(port string) ([]Trick, error) {
	var table []Trick
	for n, line := range strings.Split(strings.ReplaceAll(tricks, "{port}", port), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		columns := strings.Split(line, "|")
		if len(columns) != 4 {
			return nil, fmt.Errorf("tricks.txt:%d: %d columns", n+1, len(columns))
		}
		for i, column := range columns {
			columns[i] = strings.TrimSpace(column)
		}
		answers, err := parseAnswers(columns[2])
		if err != nil {
			return nil, fmt.Errorf("tricks.txt:%d: %w", n+1, err)
		}
		table = append(table, Trick{Name: columns[0], Address: columns[1], Answers: answers, Location: columns[3]})
	}
	return table, nil
}

func parseAnswers(text string) ([][]netip.Addr, error) {
	if text == "" {
		return nil, nil
	}
	var lookups [][]netip.Addr
	for lookup := range strings.SplitSeq(text, ";") {
		var addresses []netip.Addr
		for one := range strings.SplitSeq(lookup, ",") {
			address, err := netip.ParseAddr(one)
			if err != nil {
				return nil, err
			}
			addresses = append(addresses, address)
		}
		lookups = append(lookups, addresses)
	}
	return lookups, nil
}
