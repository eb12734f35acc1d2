package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// outside has what terminals obey, hide or reorder, and what goes on as a new line; inside is what is printed of it.
const (
	outside = "é\x1b[2J\x1b]0;title\a\r\b\x7f\u009b31m\x9b31m\u200f\u202e\u2066\u2028\ufeff\U000e0041\ufffd\xe2\x82😀"
	inside  = `é\u001b[2J\u001b]0;title\u0007\u000d\u0008\u007f\u009b31m\x9b31m\u200f\u202e\u2066\u2028\ufeff\udb40\udc41` + "\ufffd" + `\xe2\x82😀`
)

func TestPrintable(t *testing.T) {
	for s, want := range map[string]string{"": "", "a b": "a b", outside: inside, "a\nb\tc": `a\u000ab\u0009c`} {
		require.Equal(t, want, cli.Printable(s))
		require.Equal(t, want, cli.Printable(want))
	}
}

// However output is cut into pieces, it comes out clean.
func TestWriter(t *testing.T) {
	const text = "one\ttwo\n" + outside + "\n"
	for size := 1; size <= len(text); size++ {
		var out bytes.Buffer
		w := cli.NewWriter(&out)
		for rest := text; rest != ""; rest = rest[min(size, len(rest)):] {
			n, err := fmt.Fprint(w, rest[:min(size, len(rest))])
			require.NoError(t, err)
			require.Equal(t, min(size, len(rest)), n)
		}
		require.Equal(t, "one\ttwo\n"+inside+"\n", out.String(), size)
		w.Write([]byte("\xf0\x9f"))
		require.NoError(t, w.Close())
		require.True(t, strings.HasSuffix(out.String(), `\xf0\x9f`), size)
	}
	_, err := cli.NewWriter(fails{}).Write([]byte("x"))
	require.ErrorIs(t, err, unix.EPIPE)
}

type fails struct{}

func (fails) Write([]byte) (int, error) { return 0, unix.EPIPE }

// JSON has no character that a terminal obeys, and means the same.
func TestWriterJSON(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, json.NewEncoder(cli.NewWriter(&out)).Encode(`\`+outside))
	require.Equal(t, out.String(), cli.Printable(strings.TrimSpace(out.String()))+"\n")
	var back string
	require.NoError(t, json.Unmarshal(out.Bytes(), &back))
	require.Equal(t, strings.ToValidUTF8(`\`+outside, "\ufffd"), strings.ReplaceAll(back, "\ufffd\ufffd", "\ufffd")) // one for each byte
}

// A terminal gets the colours of the tool, and no others.
func TestColours(t *testing.T) {
	master, tty := clitest.Terminal(t, 80)
	w := cli.NewWriter(tty)
	require.Equal(t, tty, cli.Terminal(w))
	require.Equal(t, tty, cli.Unwrap(w))
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	red, blue := cli.Colours(w), cli.Colours(w) // asked for twice
	for _, b := range []byte(red("31", "r\x1b[5m") + blue("34", "b") + red("", "n") + "\x1b[31mx\x1b" + "\x1b[0m") {
		w.Write([]byte{b})
	}
	want := "\x1b[31mr\\u001b[5m\x1b[0m\x1b[34mb\x1b[0mn\\u001b[31mx\\u001b\\u001b[0m"
	got := make([]byte, len(want))
	_, err := io.ReadFull(master, got)
	require.NoError(t, err)
	require.Equal(t, want, string(got))

	t.Setenv("TERM", "dumb")
	require.Equal(t, "r", cli.Colours(cli.NewWriter(tty))("31", "r"))
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "1")
	require.Equal(t, "r", cli.Colours(cli.NewWriter(tty))("31", "r"))
	t.Setenv("NO_COLOR", "")
	require.Equal(t, "r", cli.Colours(cli.NewWriter(io.Discard))("31", "r"))
	require.Nil(t, cli.Terminal(cli.NewWriter(io.Discard)))
	require.Nil(t, cli.Terminal(nil))
}

// All that a command prints goes through a Writer: what it means to say, its errors, and those of the command line.
func TestOutputs(t *testing.T) {
	for _, args := range [][]string{{"x"}, {"x", outside}, {outside}, {"x", "--" + outside}} {
		var out, errs bytes.Buffer
		root := cli.Root()
		root.SetOut(&out)
		root.SetErr(&errs)
		root.AddCommand(&cobra.Command{Use: "x", RunE: func(cmd *cobra.Command, args []string) error {
			cmd.Println(outside)
			cmd.PrintErrln(outside)
			fmt.Fprintln(cmd.OutOrStdout(), outside)
			fmt.Fprint(cmd.ErrOrStderr(), outside+"\xe2")
			return fmt.Errorf("it says %s", outside)
		}})
		require.NotZero(t, cli.Main(root, args))
		for line := range strings.SplitSeq(out.String()+errs.String(), "\n") {
			require.Equal(t, line, cli.Printable(line))
			require.NotContains(t, line, "\xe2")
		}
		require.Contains(t, errs.String(), `\u202e`)
	}
}
