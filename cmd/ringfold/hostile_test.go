package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/btf"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/broker"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// evil has sequences of ESC, CSI and OSC, control characters of C0 and C1, as runes and as bytes, and some that reorder text. A
// subject of NATS has no blanks, and a comm 15 bytes.
const (
	evilSubject = "\x1b]0;title\a\x1b[2J\x1b[31m\u009b31m\x9b31m\u202e\u2066\u200f\x7f\b"
	evil        = evilSubject + "\r\nFORGED\tx"
	evilComm    = "\x1b[2J\u202e\x9b\nFORG"
)

// clean fails if output has what a terminal obeys, or a line that begins as no line of ours does.
func clean(t *testing.T, what, out string) {
	t.Helper()
	for line := range strings.SplitSeq(out, "\n") {
		require.Equal(t, cli.Printable(strings.ReplaceAll(line, "\t", "")), strings.ReplaceAll(line, "\t", ""), what)
		require.False(t, strings.HasPrefix(strings.TrimSpace(line), "FORG"), "%s: %s", what, out)
	}
}

// tool runs the tool in this process, and checks all that it prints.
type tool struct {
	ran map[string]bool
}

func (h *tool) run(t *testing.T, args ...string) (status int, text string) {
	t.Helper()
	out, errs := clitest.NewOutput(t), clitest.NewOutput(t)
	r := root()
	if cmd, _, err := r.Find(args); err == nil {
		h.ran[cmd.CommandPath()] = true
	}
	r.SetOut(out)
	r.SetErr(errs)
	status = cli.Main(r, args)
	what := fmt.Sprintf("%q", args)
	clean(t, what, out.String())
	clean(t, what, errs.String())
	if strings.Contains(what, `"--json"`) {
		for line := range strings.Lines(out.String()) {
			require.True(t, json.Valid([]byte(line)), "%s: %s", what, line)
		}
	}
	return status, out.String() + errs.String()
}

// hostileRecording has events whose names, and those in their BTF, are what nobody would call them.
func hostileRecording(t *testing.T, path string, names ...string) {
	u32, char := &btf.Int{Name: evil, Size: 4}, &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}
	enum := &btf.Enum{Name: evil, Size: 4, Values: []btf.EnumValue{{Name: evil + "value", Value: 0}}}
	typ := &btf.Struct{Name: "event", Size: 16, Members: []btf.Member{{Name: evil + "member", Type: u32}, {Name: "e" + evil, Type: enum, Offset: 32},
		{Name: "comm", Type: &btf.Array{Type: char, Index: u32, Nelems: 8}, Offset: 64}}}
	b, err := btf.NewBuilder([]btf.Type{typ, &btf.Struct{Name: evil, Size: 16, Members: typ.Members}}, nil)
	require.NoError(t, err)
	blob, err := b.Marshal(nil, nil)
	require.NoError(t, err)
	var o perfdata.Options
	for _, name := range names {
		o.Events = append(o.Events, perfdata.EventInfo{Name: name, BTF: blob})
	}
	clitest.Recording(t, path, o, time.Millisecond, append(make([]byte, 8), "\x1b[2J\x9b\nx"...))
}

// Whatever text from outside says, a terminal shows it, and obeys nothing of it.
func TestHostileText(t *testing.T) {
	h := &tool{map[string]bool{}}
	dir := t.TempDir()
	one, two, damaged := filepath.Join(dir, "one.data"), filepath.Join(dir, "two.data"), filepath.Join(dir, evilSubject+".data")
	hostileRecording(t, one, evil)
	hostileRecording(t, two, evil, evil+"2")
	b, err := os.ReadFile(one)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(damaged, bytes.Replace(b[:len(b)-200], []byte("event"), []byte("\x1b[2J."), 1), 0o600))

	for _, file := range []string{one, two, damaged} {
		for _, more := range [][]string{nil, {"--type", "event"}, {"--type", evilSubject}, {"--type", "none"}, {"--event", "none"}, {"--type", "event", "--filter", "none == 1"},
			{"--filter", evilSubject + " == 1"}} {
			for _, format := range []string{"--output=text", "--output=compact", "--json"} {
				for _, command := range []string{"tail", "replay", "stat", "record", "trace"} {
					args := append([]string{command, file, format}, more...)
					switch command {
					case "replay":
						args = append(args, "--speed", "max")
					case "record", "trace":
						args = append(args, "-w", filepath.Join(dir, evilSubject))
					}
					_, out := h.run(t, args...)
					require.NotEmpty(t, out)
				}
			}
			h.run(t, append([]string{"trace", file, "-w", "-"}, more...)...)
		}
		for _, format := range []string{"--output=text", "--output=compact", "--json"} {
			h.run(t, "top", file, format, "--timeout", "50ms", "--interval", "10ms")
		}
	}
	// What is escaped is there, and in JSON it means the same.
	_, text := h.run(t, "tail", one, "--type", "event", "-q=false")
	for _, want := range []string{`member=0`, `e\u001b]0;title`, `\u000aFORGED\u0009xvalue`, `(event \u001b]0;title\u0007\u001b[2J`} {
		require.Contains(t, text, want)
	}
	_, text = h.run(t, "tail", one, "--type", "event", "--json")
	text = text[strings.Index(text, "{"):]
	var object struct{ Fields map[string]any }
	require.NoError(t, json.NewDecoder(strings.NewReader(text)).Decode(&object))
	require.Contains(t, object.Fields, strings.ToValidUTF8(evil, "\ufffd")+"member")

	// The user types arguments, so a newline in them is the user's.
	for _, args := range [][]string{{evilSubject}, {"--" + evilSubject}, {"tail", evilSubject}, {"tail", "name", evilSubject}, {"tail", "pinned", evilSubject}, {"tail", "id", evilSubject}, {"tail", evilSubject + ".data"},
		{"stat", "--process", evilSubject}, {"list", "--process", evilSubject}, {"metrics", "pinned", evilSubject}, {"metrics", "--listen", evilSubject}, {"metrics", "--dashboard"},
		{"fleet"}, {"fleet", evilSubject}, {"record", "-w", "nats://broker/EVENTS?host=" + evilSubject}, {"record", "-w", "nats://broker/EVENTS?creds=" + evilSubject}, {"tail", "nats://" + evilSubject + "/EVENTS"}, {"tail", "nats://broker/" + evilSubject + "?x=" + evilSubject},
		{"fleet", "demo", "--" + evilSubject}, {"demo", "--mode", evilSubject}, {"demo", "--simulate", "--all", "-n", "5"}, {"doctor"}, {"doctor", "--json"}, {"doctor", evilSubject}, {"version"}, {"version", evilSubject},
		{"help", evilSubject}, {"completion", evilSubject}, {"__complete", "tail", one, "--type", ""}, {"__complete", "tail", two, "--event", ""}} {
		_, out := h.run(t, args...)
		require.NotEmpty(t, out, "%q", args)
	}
	t.Run("kernel", h.kernel)
	t.Run("fleet", h.fleet)
	if !t.Failed() {
		require.Subset(t, keys(h.ran), leaves(root()))
	}
}

func keys(m map[string]bool) (all []string) {
	for k := range m {
		all = append(all, k)
	}
	return all
}

// leaves are all commands that do something.
func leaves(cmd *cobra.Command) (all []string) {
	for _, c := range cmd.Commands() {
		if all = append(all, leaves(c)...); c.Runnable() && !c.Hidden {
			all = append(all, c.CommandPath())
		}
	}
	return all
}

// kernel has pins, processes and programs with such names.
func (h *tool) kernel(t *testing.T) {
	kerneltest.RequireRoot(t)
	loaded := load(t)
	dir := t.TempDir()
	require.NoError(t, unix.Mount("bpf", dir, "bpf", 0, ""))
	defer unix.Unmount(dir, unix.MNT_DETACH)
	pin := filepath.Join(dir, evil)
	require.NoError(t, loaded.Maps["events"].Pin(pin))
	comm, err := os.ReadFile("/proc/self/comm")
	require.NoError(t, err)
	defer os.WriteFile("/proc/self/comm", bytes.TrimSpace(comm), 0)
	require.NoError(t, os.WriteFile("/proc/self/comm", []byte(evilComm), 0))
	for _, format := range []string{"--output=text", "--output=compact", "--json"} {
		_, out := h.run(t, "list", format)
		if format == "--output=text" {
			require.Contains(t, out, `\u000aFORGED\u0009x`)
			require.Contains(t, out, `\u001b[2J\u202e\x9b\u000aFORG`)
		}
		for _, command := range []string{"tail", "stat", "top", "record", "metrics", "trace"} {
			args := []string{command, "pinned", pin, "--steal", format, "--timeout", "20ms"}
			switch command {
			case "record", "trace":
				args = append(args, "-w", filepath.Join(t.TempDir(), "out"))
			case "metrics":
				args = append(args, "--listen", "127.0.0.1:0")
			}
			_, out := h.run(t, args...)
			require.NotEmpty(t, out)
		}
	}
	_, out := h.run(t, "tail", "pinned", pin, "--type", evilSubject)
	require.NotEmpty(t, out)

	program := filepath.Join(t.TempDir(), evil)
	script, err := os.ReadFile("/bin/true")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, script, 0o755))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			exec.Command(program).Run()
		}
	}()
	for _, format := range []string{"--output=text", "--output=compact", "--json"} {
		for seen := false; !seen; {
			_, out := h.run(t, "demo", "--all", format, "--timeout", "300ms")
			seen = strings.Contains(out, `\u001b]0;title`)
		}
	}
	stop()
	<-ended
}

// fleet has hosts, subjects and events with such names.
func (h *tool) fleet(t *testing.T) {
	server, err := broker.Start(t.TempDir())
	require.NoError(t, err)
	defer server.Close()
	nc, err := nats.Connect(server.URL())
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"EVENTS.>"}})
	require.NoError(t, err)
	publish := func(subject, header string, data []byte) {
		_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Header: nats.Header{"Ringfold": {header}}, Data: data})
		require.NoError(t, err)
	}
	var sent bytes.Buffer
	rec, err := perfdata.NewRecorder(&sent, perfdata.Options{Events: []perfdata.EventInfo{{Name: evil}}})
	require.NoError(t, err)
	head := bytes.Clone(sent.Bytes())
	file := filepath.Join(t.TempDir(), "one.data")
	hostileRecording(t, file, evil)
	r, err := perfdata.Open(file, perfdata.ReplayOptions{})
	require.NoError(t, err)
	defer r.Close()
	stream, err := r.Stream(perfbuf.StreamOptions{})
	require.NoError(t, err)
	require.Equal(t, io.EOF, rec.Run(t.Context(), stream))
	sent.Next(len(head))
	records := perfdata.Gap{Reason: evil, Count: 1, Time: 1}.Append(sent.Bytes())
	of := func(sequence int, more string) string {
		return fmt.Sprintf(`{"host":"a","boot":"boot","log":"log","seq":%d,"first":1,%s}`, sequence, more)
	}
	publish("EVENTS.a.log.head", of(1, `"head":true`), head)
	data := of(2, fmt.Sprintf(`"through":%d,"wall":%d,"end":true`, uint64(1)<<50, time.Now().UnixNano()-1<<50))
	publish("EVENTS.a.log.data", data, records)
	publish("EVENTS."+strings.ReplaceAll(evilSubject, ".", ""), cli.Printable(evil), []byte(evil))
	publish("EVENTS."+strings.ReplaceAll(evilSubject, ".", "")+"2", data, records)
	for _, format := range []string{"--output=text", "--output=compact", "--json"} {
		status, out := h.run(t, "tail", server.URL()+"/EVENTS?since=all&once=true", format)
		require.Equal(t, 3, status, out) // as not all can be read
		require.Contains(t, out, `\u001b]0;title`)
		require.Contains(t, out, `\u202e`)
		if format == "--output=text" {
			require.Contains(t, out, "malformed")
		}
	}
}
