package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringfold/ringfold/conformance/suite"
	"github.com/ringfold/ringfold/conformance/wire"
	"github.com/stretchr/testify/require"
)

// mutantEnv has this program be an adapter with a fault: "FAULT PATH" is that of a good adapter, whose frames it spoils, or naive.
const mutantEnv = "CONFORMANCE_MUTANT"

func TestMain(m *testing.M) {
	if spec := os.Getenv(mutantEnv); spec != "" {
		fault, path, _ := strings.Cut(spec, " ")
		if err := mutant(fault, path); err != nil {
			fmt.Fprintln(os.Stderr, "mutant:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func mutant(fault, path string) error {
	os.Unsetenv(mutantEnv)
	if strings.HasPrefix(fault, "naive") {
		return naive(fault)
	}
	cmd := exec.Command(path, os.Args[1:]...)
	cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
	if len(os.Args) > 1 && os.Args[1] == "describe" {
		cmd.Stdout = os.Stdout
		return cmd.Run()
	}
	cmd.ExtraFiles = []*os.File{os.NewFile(3, "map")}
	if slices.Contains(os.Args, "lanes=4") {
		cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(4, "lanes"))
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	out, r, buffer := wire.NewWriter(os.Stdout), bufio.NewReader(stdout), []byte(nil)
	events := 0
	var held *wire.Frame
	for {
		f, err := wire.Read(r, &buffer)
		if err != nil {
			out.Flush()
			if err == io.EOF {
				return cmd.Wait()
			}
			return err
		}
		if f.Type == wire.Event {
			events++
		}
		at := f.Type == wire.Event && events == 50
		switch {
		case fault == "drop" && at, fault == "no-loss" && f.Type == wire.Lost, fault == "hang" && f.Type == wire.Done,
			fault == "no-shed" && f.Type == wire.Shed:
			continue
		case fault == "twice" && at:
			out.Write(f)
		case fault == "byte" && at:
			f.Data[30] ^= 1
		case fault == "short" && at:
			f.Data = f.Data[:len(f.Data)-8]
		case fault == "receipt" && f.Type == wire.Receipt:
			f.Data[8] ^= 1
		case fault == "cpu" && at:
			f.CPU ^= 1
		case fault == "crash" && at:
			panic("crash")
		case fault == "swap" && at:
			f.Data = append([]byte(nil), f.Data...)
			held = &f
			continue
		}
		out.Write(f)
		if held != nil {
			out.Write(*held)
			held = nil
		}
	}
}

// The suite finds what is wrong with an adapter.
func TestMutants(t *testing.T) {
	dir := adapter(t)
	self, err := os.Executable()
	require.NoError(t, err)
	for _, want := range []struct{ fault, scenario, text string }{
		{"drop", "conservation/overflow", "hangs"},
		{"twice", "conservation/fits", "twice, or out of order"},
		{"byte", "conservation/fits", "the checksum is"},
		{"short", "conservation/fits", "has 196 bytes"},
		{"swap", "order/alternating", "comes after"},
		{"cpu", "conservation/fits", "is said to be of CPU"},
		{"no-loss", "conservation/overflow", "but 0 count as lost"},
		{"no-shed", "overload/receipts", "and the reader told of 0"},
		{"receipt", "overload/receipts", "the receipt says"},
		{"hang", "life/close-while-waiting", "hangs"},
		{"crash", "conservation/fits", "the adapter ended, with exit status 2"},
		{"swap", "delivery/ringbuf-wakeup-flags", "comes after"},
		{"naive", "delivery/ringbuf-ping-pong", ""},
		{"naive-looks-first", "delivery/ringbuf-ping-pong", "hangs"},
		{"naive", "delivery/ringbuf-quiet-record", "hangs"},
		{"naive", "life/ringbuf-overwrite", "it is opened"},
	} {
		t.Run(want.fault+"/"+want.scenario, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), want.fault)
			script := fmt.Sprintf("#!/bin/sh\n%s='%s %s/ringfold' exec %s \"$@\"\n", mutantEnv, want.fault, dir, self)
			require.NoError(t, os.WriteFile(path, []byte(script), 0o755))
			r, err := suite.Find(path, "")
			require.NoError(t, err)
			selected, err := suite.Select(all(t), want.scenario)
			require.NoError(t, err)
			patience := time.Minute // which it does not come to
			if want.text == "hangs" {
				patience = 3 * time.Second
			}
			result := suite.Run(selected[0], r, suite.Options{Patience: patience, Short: true})
			if result.Outcome == suite.Cannot {
				t.Skip(result.Text)
			}
			outcome := suite.Failed
			if want.text == "" {
				outcome = suite.Passed
			}
			require.Equalf(t, outcome, result.Outcome, "%s\n%s", result.Text, result.Log)
			require.Contains(t, result.Text, want.text)
		})
	}
}
