package kerneltest

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// programEnv set to 1 has a test binary be the program.
const programEnv = "RINGFOLD_TEST_PROGRAM"

// Main is the TestMain of a program, for Program: the test binary is the program too.
func Main(m *testing.M, main func()) {
	if os.Getenv(programEnv) == "1" {
		main()
		return
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // else -race ends a process a second late
	os.Exit(m.Run())
}

// Program returns a command that runs the program in its own process, and kills it when the test
// ends. The package's TestMain must be Main.
func Program(t testing.TB, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), programEnv+"=1")
	t.Cleanup(func() {
		if cmd.Process != nil {
			_ = cmd.Process.Kill() // of one that was waited for, that is an error
		}
	})
	return cmd
}

// Unprivileged requires that the program fails for want of privilege if nobody runs it.
func Unprivileged(t testing.TB, args ...string) {
	t.Helper()
	RequireRoot(t)
	cmd := Program(t, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "operation not permitted") {
		t.Fatalf("the program ends (%v) with: %s", err, out)
	}
}

// Until runs a command, sends it Ctrl-C once enough has returned true for a printed line, and
// returns all its lines. The command must exit with 0, and print nothing on stderr.
func Until(t testing.TB, cmd *exec.Cmd, enough func(line string) bool) (lines []string) {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	seen := false
	for s := bufio.NewScanner(out); s.Scan(); {
		lines = append(lines, s.Text())
		if !seen && enough(s.Text()) {
			seen = true
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil || !seen || stderr.Len() > 0 {
		t.Fatalf("the program ends (%v, Ctrl-C was sent: %t) with %d lines, and on stderr: %s", err, seen, len(lines), stderr.String())
	}
	return lines
}

// Processes runs short-lived processes, one after the other, until the test ends. It returns the
// file that they execute.
func Processes(t testing.TB) (file string) {
	t.Helper()
	file = RequireCommand(t, "true")
	quit, gone := make(chan bool), make(chan bool)
	go func() {
		defer close(gone)
		for {
			_ = exec.Command(file).Run()
			select {
			case <-quit:
				return
			// With shorter pauses, a slow machine cannot print all the thread switches.
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() { close(quit); <-gone })
	return file
}
