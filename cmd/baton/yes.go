package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
)

// yesFlag is that of the commands that destroy something.
type yesFlag struct {
	Yes bool `help:"Do not ask first."`
}

// ask asks on the terminal whether to go on, unless --yes said so.
func (f yesFlag) ask(streams std, question string) error {
	if f.Yes {
		return nil
	}
	fmt.Fprintf(streams.err, "%s [y/N] ", question)
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); err == nil && (answer == "y" || answer == "yes") {
		return nil
	}
	return &usageError{errors.New("nothing was done: say --yes")}
}
