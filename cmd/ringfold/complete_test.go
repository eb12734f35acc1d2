package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The shell completes names of maps, processes, types and the like, files where files are meant, and nothing elsewhere.
func TestCompletion(t *testing.T) {
	kerneltest.RequireRoot(t)
	loaded := load(t)
	id := strings.Fields(id(t, loaded.Maps["events"]))[1]
	dir := t.TempDir()
	require.NoError(t, unix.Mount("bpf", dir, "bpf", 0, ""))
	defer unix.Unmount(dir, unix.MNT_DETACH)
	pin := filepath.Join(dir, "events")
	require.NoError(t, loaded.Maps["events"].Pin(pin))
	recordings := t.TempDir()
	for _, name := range []string{"events.data", "$(reboot).data"} {
		require.NoError(t, os.WriteFile(filepath.Join(recordings, name), nil, 0o600))
	}
	holder := exec.Command("sleep", "1000")
	fd, err := unix.Dup(loaded.Maps["rb"].FD())
	require.NoError(t, err)
	rb := os.NewFile(uintptr(fd), "rb")
	defer rb.Close()
	holder.ExtraFiles = []*os.File{rb}
	require.NoError(t, holder.Start())
	defer func() { holder.Process.Kill(); holder.Wait() }()

	const files, dirs, nothing = ":0", ":16", ":4"
	for line, want := range map[string]string{
		"tail ":                      "id name pinned file " + files,
		"tail " + recordings + "/":   recordings + "/events.data " + files,
		"tail id ":                   id + " " + nothing,
		"tail name ":                 "events rb " + nothing,
		"tail id " + id + " name ":   "events rb " + nothing,
		"stat pinned ":               pin + " " + nothing,
		"top file ":                  files,
		"trace --process ":           "sleep " + nothing,
		"list --process ":            "sleep " + nothing,
		"tail --process sleep name ": "rb " + nothing,
		"tail id " + id + " --type ": "event " + nothing,
		"record --btf testdata/exec.bpf.o --type ": "event " + nothing,
		"stat id " + id + " --btf-prog ":           "executed " + nothing,
		"replay ":                                  files,
		"replay ../../perfbuf/perfdata/testdata/exec.perf.data --event ": "events " + nothing,
		"tail --mode ":           "exact slack " + nothing,
		"list -o ":               "text compact json " + nothing,
		"tail --timeout ":        nothing,
		"record -w ":             files,
		"record --snapshot-dir ": dirs,
		"doctor ":                nothing,
		"fleet ":                 "demo " + nothing,
	} {
		var out bytes.Buffer
		root := root()
		root.SetOut(&out)
		root.SetErr(io.Discard)
		require.Zero(t, cli.Main(root, append([]string{cobra.ShellCompNoDescRequestCmd}, strings.Split(line, " ")...)))
		require.Subset(t, strings.Fields(out.String()), strings.Fields(want), line)
		require.NotContains(t, out.String(), "$(reboot)", "a shell would run it")
	}
}
