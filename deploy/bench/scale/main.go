// Command scale simulates federations of 10 to 1,000 homes at a hub, with a thousand agents per
// home. It prints a report with the cost of a home as the federation grows, the first exhausted
// resource, and the effect of the plan in federation/relay/README.md.
//
//	scale [-o REPORT.md] [-homes 10,30,100,300,1000] [-seed N]
//	scale -measure COSTS.json
//
// The run takes two minutes on one core. It reads the measured costs from
// bench/scale/model/costs.json, which -measure writes from real gateways at a real hub. That takes
// some minutes, and needs baton in the PATH.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/baton-gateway/baton/deploy/bench/scale/measure"
	"github.com/baton-gateway/baton/deploy/bench/scale/model"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run() error {
	output := flag.String("o", "", "the file of the report, with its plots beside it; the standard output without")
	homes := flag.String("homes", "10,30,100,300,1000", "numbers of homes")
	seed := flag.Uint64("seed", 1, "seed of all random numbers")
	costs := flag.String("measure", "", "measure the costs, and write them to this file")
	hub := flag.String("serve-hub", "", "run the hub of a measurement with the accounts in this folder")
	flag.Parse()
	switch {
	case flag.NArg() > 0:
		return errors.New("want no arguments")
	case *hub != "":
		return measure.ServeHub(context.Background(), *hub) // it ends with its input
	case *costs != "":
		return measured(*costs)
	}
	var sizes []int
	for text := range strings.SplitSeq(*homes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 2 || n > model.MaxHomes {
			return fmt.Errorf("want 2 to %d homes, not %q", model.MaxHomes, text)
		}
		sizes = append(sizes, n)
	}
	r, err := simulate(sizes, *seed)
	if err != nil {
		return err
	}
	if *output == "" {
		return r.write(os.Stdout)
	}
	return save(r, *output)
}

func measured(to string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := measure.All(ctx)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(to, append(text, '\n'), 0o600)
}

func save(r *report, to string) error {
	var text bytes.Buffer
	if err := r.write(&text); err != nil {
		return err
	}
	for name, p := range r.plots() {
		var drawing bytes.Buffer
		if err := p.WriteSVG(&drawing); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(to), name), drawing.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(to, text.Bytes(), 0o644)
}
