package federationtest

import (
	"flag"
	"strconv"
)

// RunParallel lets up to n parallel tests of this package run at a time, unless the command line
// has -parallel. The default is one for each processor, which is too few for tests that wait. Call
// it in TestMain.
func RunParallel(n int) {
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}
