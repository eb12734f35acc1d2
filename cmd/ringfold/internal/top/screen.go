package top

import (
	"context"
	"errors"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"
)

// screen is the live view in a terminal, as Bubble Tea has it.
type screen struct {
	view
	session  *session
	interval time.Duration
	before   snapshot
	frame    frame
}

func newScreen(s *session, interval time.Duration) screen {
	first := s.snapshot()
	return screen{view: view{source: s.name}, session: s, interval: interval, before: first, frame: newFrame(s.began, first, first)}
}

// tick says that an interval is over.
type tick struct{}

func (s screen) next() tea.Cmd {
	return tea.Tick(s.interval, func(time.Time) tea.Msg { return tick{} })
}

func (s screen) Init() tea.Cmd { return s.next() }

func (s screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
		s.view = s.clamp(s.frame)
	case tick:
		now := s.session.snapshot()
		s.frame, s.before = newFrame(s.session.began, s.before, now), now
		s.view = s.clamp(s.frame)
		return s, s.next()
	case tea.KeyPressMsg:
		return s.key(msg.String())
	}
	return s, nil
}

func (s screen) key(key string) (tea.Model, tea.Cmd) {
	page := max(s.room(s.frame), 1)
	switch key {
	case "q", "ctrl+c":
		return s, tea.Quit
	case "ctrl+z":
		// Not without a shell that could continue us: where we are in its own group, nothing stops, and Bubble Tea would wait.
		if session, err := unix.Getsid(0); err == nil && unix.Getpgrp() != session {
			return s, tea.Suspend
		}
		s.session.note("Ctrl-Z: top runs without a shell that could bring it back: q quits")
	case "p":
		s.session.togglePause()
	case "m":
		s.session.changeMode()
	case "s":
		s.byFullness, s.offset = !s.byFullness, 0
	case "up", "k":
		s.offset--
	case "down", "j":
		s.offset++
	case "pgup":
		s.offset -= page
	case "pgdown", "space":
		s.offset += page
	case "home":
		s.offset = 0
	case "end":
		s.offset = len(s.frame.Rings)
	}
	s.view = s.clamp(s.frame)
	// What was asked for shows at once. The numbers stay those of the interval.
	s.frame.Mode, s.frame.Paused, s.frame.Problem = s.session.state()
	return s, nil
}

func (s screen) View() tea.View {
	v := tea.NewView("")
	v.AltScreen = true
	if s.width > 0 { // else its size is not known yet
		v.SetContent(s.render(s.frame))
	}
	return v
}

// show runs the view until it is quit or ctx ends. The terminal is as before then.
func (s screen) show(ctx context.Context) error {
	p := tea.NewProgram(s, tea.WithoutSignalHandler())
	// Not tea.WithContext: it closes the terminal's reader while that reads.
	stop := context.AfterFunc(ctx, p.Quit)
	defer stop()
	_, err := p.Run()
	if ctx.Err() != nil || errors.Is(err, tea.ErrInterrupted) {
		return nil
	}
	return err
}
