package top

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

// terminal is a pseudo terminal of 100x30, in which a shell runs the program, and then shows how it has left the terminal. Enter continues
// it if it is stopped then. If the test is killed, all of it ends by itself after a while.
type terminal struct {
	t      *testing.T
	socket string
}

func newTerminal(t *testing.T, setUp, args string) terminal {
	t.Helper()
	kerneltest.Require(t)
	kerneltest.RequireCommand(t, "tmux")
	exe, err := os.Executable()
	require.NoError(t, err)
	x := terminal{t, filepath.Join(t.TempDir(), "tmux")}
	t.Cleanup(func() { x.tmux("kill-server") })
	x.must("-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", "-e", clitest.Env(),
		fmt.Sprintf("%s; echo before; '%s' top --timeout 10m %s; echo status $?; stty -a; read line; clear; fg; echo again $?; exec sleep 600", setUp, exe, args))
	return x
}

func (x terminal) tmux(args ...string) (string, error) {
	cmd := exec.Command("tmux", append([]string{"-u", "-S", x.socket}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (x terminal) must(args ...string) string {
	x.t.Helper()
	out, err := x.tmux(args...)
	require.NoError(x.t, err, out)
	return out
}

func (x terminal) press(key string) { x.must("send-keys", key) }

// see waits until the screen shows what matches all patterns, and returns it. The program must not end before that.
func (x terminal) see(patterns ...string) string {
	x.t.Helper()
	return x.seeBefore("status ", patterns...)
}

// seeBefore is see of a program whose end shows this text.
func (x terminal) seeBefore(end string, patterns ...string) string {
	x.t.Helper()
	for {
		screen := x.must("capture-pane", "-p")
		all := true
		for _, p := range patterns {
			all = all && regexp.MustCompile(p).MatchString(screen)
		}
		if all {
			return screen
		}
		ended := strings.Contains(screen, end) && !strings.Contains(strings.Join(patterns, ""), end)
		require.False(x.t, ended, "the program has ended: %s", screen)
		time.Sleep(10 * time.Millisecond)
	}
}

func TestScreen(t *testing.T) {
	x := newTerminal(t, ":", "--interval 50ms")
	screen := x.see(`ringfold top  own load`, `unordered · \d`, `events/s +[1-9]`)
	require.Contains(t, screen, "q quit")
	require.NotContains(t, screen, "before")
	x.press("m")
	x.see(`slack · \d`, `events/s +[1-9]`)
	x.press("m")
	x.see(`exact · \d`, `events/s +[1-9]`, `barrier +[\d.]+ / [\d.]+ ms`)
	x.press("m")
	x.see(`unordered · \d`, `events/s +[1-9]`)
	x.press("p")
	x.see(`PAUSED · unordered`, `events/s +0 `, `refused/s +[1-9]`)
	x.press("p")
	x.see(`  unordered · \d`, `events/s +[1-9]`, `refused/s +0\n`)
	x.see(`by CPU, 1-`)
	x.press("s")
	x.see(`by fullness, 1-`)

	// The window narrows, to one row.
	require.Contains(t, screen, "FIRST")
	x.must("resize-window", "-x", "50", "-y", "5")
	require.NotContains(t, x.see(`, 1-1 of`), "FIRST")
	if runtime.NumCPU() > 1 {
		x.press("Down")
		x.see(`, 2-2 of`)
	}
	x.must("resize-window", "-x", "100", "-y", "30")
	require.Contains(t, x.see(`, 1-\d+ of`, "FIRST"), "by fullness")

	// Where no shell could continue it, Ctrl-Z stops nothing, and says so.
	x.press("C-z")
	x.see("without a shell")
	x.press("q")
	x.see(`status 0`)
}

func TestScreenLeftClean(t *testing.T) {
	for name, c := range map[string]struct{ setUp, key, args, status string }{
		"q": {":", "q", "", "0"}, "Ctrl-C": {":", "C-c", "", "0"}, "timeout": {":", "", "--timeout 1s", "0"}, "Ctrl-Z": {"set -m", "C-z", "", "148"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTerminal(t, c.setUp, "--interval 50ms "+c.args)
			if c.key != "" {
				x.see(`ringfold top  own load`, `events/s +[1-9]`)
				x.press(c.key)
			}
			screen := x.see(`status `+c.status, `-?echoke`)
			require.Contains(t, screen, "before")
			require.Equal(t, c.status == "0", regexp.MustCompile(`[\d,]+ events delivered in .*s, [\d,]+ lost`).MatchString(screen), screen)
			require.NotContains(t, screen, "CPU RING")
			require.Regexp(t, `\sicanon\s`, screen)
			require.Regexp(t, `\secho\s`, screen)
			require.Regexp(t, `\sisig\s`, screen)
			require.Equal(t, "0 1 0\n", x.must("display-message", "-p", "#{alternate_on} #{cursor_flag} #{mouse_any_flag}"))
			if c.status != "0" { // it is stopped
				x.press("Enter")
				screen = x.seeBefore("again ", `(?m)^ ringfold top  own load`, `events/s +[1-9]`)
				require.NotContains(t, screen, "before")
				x.press("q")
				x.seeBefore("again ", `again 0`)
			}
		})
	}
}

// A dumb terminal gets no escape sequences, and is told what else there is.
func TestDumbTerminal(t *testing.T) {
	kerneltest.Require(t)
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(kerneltest.RequireCommand(t, "script"), "-qec", "exec '"+exe+"' top --interval 50ms --timeout 500ms", "/dev/null")
	cmd.Env = append(os.Environ(), clitest.Env(), "TERM=dumb")
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "ringfold top: TERM=dumb cannot show a live view: a table per --interval follows")
	require.Contains(t, string(out), " events delivered in ")
	require.NotContains(t, string(out), "\x1b")
}
