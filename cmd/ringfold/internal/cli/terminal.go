package cli

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Printable is text from outside, such as a name in a recording or the path of a pin, as a part of a line that people read: what a
// terminal would obey, what changes the direction of text, and what begins a new line is escaped. Main has all that commands print
// pass through a Writer, which does the same, but cannot know whose a newline is.
func Printable(s string) string {
	n := 0
	for n < len(s) && ' ' <= s[n] && s[n] <= '~' {
		n++
	}
	if n == len(s) {
		return s
	}
	b := []byte(s[:n])
	for rest := s[n:]; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		b = appendLegible(b, r, rest[:size])
		rest = rest[size:]
	}
	return string(b)
}

// appendLegible appends a rune, of which text has the bytes. Terminals obey control characters, of C1 too, and hide or reorder what is
// next to others that cannot be printed: those are escaped as in JSON, which so keeps its meaning. Bytes that are not UTF-8, which JSON
// never has, are escaped by themselves.
func appendLegible[T string | []byte](b []byte, r rune, text T) []byte {
	if high, low := utf16.EncodeRune(r); r == utf8.RuneError && len(text) == 1 {
		return fmt.Appendf(b, `\x%02x`, text[0])
	} else if unicode.IsPrint(r) {
		return append(b, text...)
	} else if high != utf8.RuneError {
		return fmt.Appendf(b, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(b, `\u%04x`, r)
}

// Writer writes text or JSON to what may be a terminal, or may reach one by way of a pipe. It escapes as Printable does, but for newlines
// and tabs. What Colours has painted stays as it is. Any goroutine may write.
type Writer struct {
	to  io.Writer
	ink []byte // stands for ESC where a colour begins or ends; nil: there are none. Nobody outside can know it.

	mu   sync.Mutex
	held []byte // the beginning of a rune or of ink: the next Write has the rest
	out  []byte
}

// NewWriter writes to another writer. Call Close at the end.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Write writes b to the other writer in one call.
func (w *Writer) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(b), w.write(b, false)
}

// Close writes what is left: half a rune. It leaves the other writer open.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.write(nil, true)
}

func (w *Writer) write(b []byte, end bool) error {
	w.out = w.out[:0]
	if len(w.held) > 0 {
		b, w.held = append(w.held, b...), nil
	}
	for len(b) > 0 {
		n := 0
		for n < len(b) && (b[n] >= ' ' && b[n] <= '~' || b[n] == '\n' || b[n] == '\t') {
			n++
		}
		w.out, b = append(w.out, b[:n]...), b[n:]
		if len(b) == 0 {
			break
		}
		r, size := utf8.DecodeRune(b)
		switch {
		case w.ink != nil && bytes.HasPrefix(b, w.ink):
			w.out, size = append(w.out, '\x1b'), len(w.ink)
		case !end && (!utf8.FullRune(b) || bytes.HasPrefix(w.ink, b)):
			w.held, size = bytes.Clone(b), len(b)
		default:
			w.out = appendLegible(w.out, r, b[:size])
		}
		b = b[size:]
	}
	if len(w.out) == 0 {
		return nil
	}
	_, err := w.to.Write(w.out)
	return err
}

// Unwrap is what w writes to if it is a Writer, else w: for what is not text, and for a command that prints by itself.
func Unwrap(w io.Writer) io.Writer {
	if w, ok := w.(*Writer); ok {
		return w.to
	}
	return w
}

// Terminal is the terminal that w writes to, nil if it is none.
func Terminal(w io.Writer) *os.File {
	if f, ok := Unwrap(w).(*os.File); ok {
		if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err == nil {
			return f
		}
	}
	return nil
}

// Colours returns what paints text in a colour, such as "1;31", for a terminal that w writes to. If that is none, or colours are not
// wanted, text stays as it is.
func Colours(w io.Writer) func(colour, text string) string {
	out, ok := w.(*Writer)
	if !ok || Terminal(w) == nil || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return func(_, text string) string { return text }
	}
	out.mu.Lock()
	defer out.mu.Unlock()
	if out.ink == nil {
		out.ink = []byte("\x1b" + rand.Text())
	}
	ink := string(out.ink)
	return func(colour, text string) string {
		if colour == "" {
			return text
		}
		return ink + "[" + colour + "m" + text + ink + "[0m"
	}
}
