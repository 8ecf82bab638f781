package federationtest

import (
	"flag"
	"strconv"
)

// RunParallel allows n parallel tests of this package, unless the command line sets -parallel. The
// default of one per processor is too low for tests that wait. Call it in TestMain.
func RunParallel(n int) {
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}
