package suite

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/ringfold/ringfold/conformance/wire"
	"github.com/ringfold/ringfold/internal/workload"
	"golang.org/x/sys/unix"
)

// Subject is an adapter that runs.
type Subject struct {
	t       *T
	sources []*Source
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	stderr  *tail

	mu      sync.Mutex
	state   *State
	changed chan struct{}

	closed  bool // it has been told to close
	abandon bool // it has been killed, or its end does not matter
	lenient bool // errors that it reports are part of the scenario
}

// Launch starts the adapter on the sources, and does not wait for it to be ready.
func (t *T) Launch(sources []*Source, settings ...string) *Subject {
	var files []*os.File
	for _, s := range sources {
		file, err := s.File(s.Map())
		t.must(err)
		defer file.Close()
		files = append(files, file)
	}
	if sources[0].Lanes {
		fd, err := unix.FcntlInt(uintptr(sources[0].LanesFD(workload.Events)), unix.F_DUPFD_CLOEXEC, 0)
		t.must(err)
		file := os.NewFile(uintptr(fd), "lanes")
		defer file.Close()
		files = append(files, file)
		settings = append(settings, fmt.Sprintf("lanes=%d", 2+len(files)))
	}
	return t.launch(sources, files, settings...)
}

func (t *T) launch(sources []*Source, files []*os.File, settings ...string) *Subject {
	var kinds, fds []string
	args := append([]string{}, t.reader.Args...)
	cmd := exec.Command(t.reader.Path)
	cmd.ExtraFiles = files
	for i, s := range sources {
		kinds, fds = append(kinds, s.Kind), append(fds, fmt.Sprint(3+i))
	}
	args = append(args, "maps="+strings.Join(fds, ","), "kind="+strings.Join(kinds, ","),
		fmt.Sprintf("time=%d", workload.TimeOffset), fmt.Sprintf("cpu=%d", workload.CPUOffset))
	cmd.Args = append(append(cmd.Args, args...), settings...)
	s := &Subject{t: t, sources: sources, cmd: cmd, state: newState(sources), changed: make(chan struct{}, 1), stderr: &tail{}}
	cmd.Stderr = s.stderr
	cmd.WaitDelay = time.Second // for processes that an adapter leaves behind, with its stderr
	var err error
	s.stdin, err = cmd.StdinPipe()
	t.must(err)
	stdout, err := cmd.StdoutPipe()
	t.must(err)
	t.must(cmd.Start())
	t.subjects = append(t.subjects, s)
	go s.listen(stdout)
	t.Cleanup(s.Kill)
	return s
}

// Start starts the adapter on one source, and waits until it reads.
func (t *T) Start(source *Source, settings ...string) *Subject {
	return t.StartAll([]*Source{source}, settings...)
}

// StartPerf is Start on a new perf event array.
func (t *T) StartPerf(settings ...string) (*Source, *Subject) {
	source := t.Perf()
	return source, t.Start(source, settings...)
}

// StartAll is Start of several sources.
func (t *T) StartAll(sources []*Source, settings ...string) *Subject {
	s := t.Launch(sources, settings...)
	s.awaitReady()
	return s
}

// awaitReady waits until the adapter of Launch reads.
func (s *Subject) awaitReady() {
	s.Until("the adapter is ready", func(st *State) bool {
		if st.Declined != "" {
			s.t.Cannotf("%s", st.Declined)
		}
		if !st.Ready && len(st.Errors) > 0 {
			s.t.Failf("opening fails: %s", st.Errors[0])
		}
		return st.Ready
	})
}

// listen takes frames in until the adapter ends.
func (s *Subject) listen(stdout io.Reader) {
	r, buffer := bufio.NewReaderSize(stdout, 1<<20), []byte(nil)
	for {
		f, err := wire.Read(r, &buffer)
		s.mu.Lock()
		if err != nil {
			if err != io.EOF {
				s.state.problem("%v", err)
			}
			s.mu.Unlock()
			break
		}
		s.state.add(f)
		s.mu.Unlock()
		s.wake()
	}
	io.Copy(io.Discard, r)
	s.cmd.Wait() // its error may be of stderr, which somebody else has
	s.mu.Lock()
	s.state.Exited, s.state.Status = true, s.cmd.ProcessState.String()
	s.mu.Unlock()
	s.wake()
}

func (s *Subject) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// With calls f with what has been delivered so far.
func (s *Subject) With(f func(*State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.state)
}

// Until waits until done says so. The scenario fails if the adapter ends before, or if nothing comes for the patience.
func (s *Subject) Until(what string, done func(*State) bool) {
	if why := s.wait(done); why != "" {
		s.t.Failf("%s; waited until %s", why, what)
	}
}

// wait is Until that says why done did not come to be.
func (s *Subject) wait(done func(*State) bool) (why string) {
	limit := time.NewTimer(6 * s.t.patience) // for what goes on and leads nowhere
	defer limit.Stop()
	for {
		exited, status, ok := false, "", false
		s.With(func(st *State) { ok, exited, status = done(st), st.Exited, st.Status })
		if ok {
			return ""
		}
		if exited {
			return "the adapter ended, with " + status + s.stderr.hint()
		}
		select {
		case <-s.changed:
		case <-time.After(s.t.patience):
			return fmt.Sprintf("hangs: nothing happened for %v", s.t.patience)
		case <-limit.C:
			return fmt.Sprintf("hangs: not there after %v", 6*s.t.patience)
		}
	}
}

// Kill ends the process, if it has not ended.
func (s *Subject) Kill() {
	s.abandon = true
	s.stdin.Close()
	s.cmd.Process.Kill()
	for end := time.Now().Add(s.t.patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		exited := false
		s.With(func(st *State) { exited = st.Exited })
		if exited {
			return
		}
	}
}

// tail keeps the beginning of what an adapter writes to stderr.
type tail struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.b.Len() < 1<<14 {
		t.b.Write(b)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

// hint is the first line, where an adapter says why it ended.
func (t *tail) hint() string {
	line, _, _ := strings.Cut(t.String(), "\n")
	if line == "" {
		return ""
	}
	return ": " + line[:min(len(line), 200)]
}
