package macp

// How errors are answered, for tests.
var (
	RPCError   = rpcError
	WriteError = writeError
)
