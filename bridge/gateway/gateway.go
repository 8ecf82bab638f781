// Package gateway is the running gateway: it submits the steps that links read, runs the
// links, and does the jobs that are due by the clock.
//
// It knows links by the interfaces of package bridge, and the record and what resolves keys
// by small ports that it declares. It opens nothing: its caller passes in what is open.
package gateway
