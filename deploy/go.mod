// The lab and the comparison with other programs. They are a module of their own, so that the gateway
// depends on nothing that only they need.
module github.com/baton-gateway/baton/deploy

go 1.26.4

require (
	github.com/ergochat/irc-go v0.6.0
	github.com/mr-tron/base58 v1.2.0
	github.com/oklog/ulid/v2 v2.1.2
	golang.org/x/sync v0.24.0
)
