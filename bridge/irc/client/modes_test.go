package client_test

import "testing"

func TestListsShowChannelsBotsAndDepartedUsers(t *testing.T) {
	t.Parallel()
	const room = `
		alice joins
		alice > JOIN #room
		alice < *JOIN*
		alice < *353*
		alice < *366*`
	for name, scene := range map[string]string{
		"an exception lets a banned client in": room + `
			alice > MODE #room +bbe bob!*@* carol!*@* bob
			alice < :alice!* MODE #room +bbe bob!*@* carol!*@* bob!*@*
			alice > MODE #room e
			alice < *348 alice #room bob!*@* alice *
			alice < *349 alice #room :*
			carol joins
			carol > JOIN #room
			carol < *474*
			bob joins
			bob > JOIN #room
			bob < *JOIN*
			bob < *353*
			bob < *366*
			alice < *bob* JOIN *
			alice > MODE #room -e bob!*@*
			alice < *MODE #room -e bob!*@*
			bob < *MODE #room -e bob!*@*
			bob > PRIVMSG #room :hello
			bob < *404*`,
		"an invite exception needs no invitation": room + `
			alice > MODE #room +iI bob!*@*
			alice < *MODE #room +iI bob!*@*
			alice > MODE #room +I
			alice < *346 alice #room bob!*@* alice *
			alice < *347*
			carol joins
			carol > JOIN #room
			carol < *473*
			bob joins
			bob > JOIN #room
			bob < *JOIN*
			bob < *353*
			bob < *366*
			alice < *JOIN*`,
		"a bot is marked": `
			scout joins
			scout > MODE scout +B
			scout < :scout!* MODE scout +B
			scout > MODE scout
			scout < *221 scout +B
			alice joins message-tags
			scout > PRIVMSG alice :beep
			alice < @*bot*:scout!* PRIVMSG alice :beep
			alice > WHO scout
			alice < *352 alice * scout HB :*
			alice < *315*
			alice > WHOIS scout
			alice < *311*
			alice < *312*
			alice < *320*
			alice < *335 alice scout :is a bot*
			alice < *317*
			alice < *318*
			scout > MODE scout -B
			scout < *MODE scout -B`,
		"WHOWAS lists departed users, the last one first": `
			alice joins
			alice > NICK alicia
			alice < *NICK*
			alice > NICK alice
			alice < *NICK*
			alice > NICK alicia
			alice < *NICK*
			alice > WHOWAS ALICE
			alice < *314 alicia alice alice * :real alice
			alice < *312 alicia alice gw.example :*
			alice < *314 alicia alice *
			alice < *312*
			alice < *369 alicia ALICE :*
			alice > WHOWAS alice 1
			alice < *314*
			alice < *312*
			alice < *369*
			alice > WHOWAS nobody
			alice < *406 alicia nobody :*
			alice < *369*`,
		"HELP lists the commands": `
			alice joins
			alice > HELP
			alice < *704 alice * :*
			alice < *705 alice * :ADMIN*WHOWAS
			alice < *706 alice * :*`,
		"a client that monitors a user is told that it is away": `
			alice joins extended-monitor away-notify setname
			bob joins setname
			alice > MONITOR + bob
			alice < *730*
			bob > AWAY :at lunch
			bob < *306*
			alice < :bob!* AWAY :at lunch
			bob > SETNAME :Robert
			bob < *SETNAME*
			alice < :bob!* SETNAME :Robert`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, start(t, testConfig()), scene)
		})
	}
}
