package spanningtree

import (
	"fmt"
	"strconv"
)

// version is a version of the protocol that this gateway speaks. The versions differ in the
// lines that this file writes and reads, and in the names of limits and modules, of which the
// sets do not overlap.
//
// spec: InspIRCd spanning tree 1205, 1206
type version int

const (
	version1205 version = 1205 // InspIRCd 3; 4 still takes it
	version1206 version = 1206 // InspIRCd 4; 5 still takes it
)

// choose returns the version to speak with a peer that announces one: the newest that both
// speak. A peer believes the number that it is answered with, and strips all tags of a server
// that announces another version than it then speaks.
func choose(announced string) (version, error) {
	theirs, err := strconv.Atoi(announced)
	if err != nil || version(theirs) < version1205 {
		return 0, fmt.Errorf("it speaks protocol %q, want %d or newer", announced, version1205)
	}
	return min(version(theirs), version1206), nil
}

// hello returns the line that introduces this server to the peer.
func (v version) hello(name, password, sid string) string {
	if v == version1205 {
		sid = "0 " + sid // the number of servers in between
	}
	return fmt.Sprintf("SERVER %s %s %s :Baton", name, password, sid)
}

// readHello reads the parameters of the peer's SERVER, and reports whether all are there.
func (v version) readHello(params []string) (name, password, sid string, ok bool) {
	at := 2
	if v == version1205 {
		at = 3
	}
	if len(params) < at+1 {
		return "", "", "", false
	}
	return params[0], params[1], params[at], true
}

// software returns what SINFO tells of this program: keys and values.
func (v version) software(home string) [][2]string {
	if v == version1205 {
		return [][2]string{{"version", "Baton. " + home + " :"}, {"rawversion", "Baton"}}
	}
	return [][2]string{{"customversion", ""}, {"rawbranch", "Baton"}, {"rawversion", "Baton"}}
}

// idents returns the user name of a user as UID has it: the real one, and from 1206 on also
// the one that is shown.
func (v version) idents(ident string) string {
	if v == version1205 {
		return ident
	}
	return ident + " " + ident
}

// uidParams returns how many parameters UID has at least: id, age of the nick, nick,
// real and shown host, user names, address, signon, modes, real name.
func (v version) uidParams() int {
	if v == version1205 {
		return 10
	}
	return 11
}
