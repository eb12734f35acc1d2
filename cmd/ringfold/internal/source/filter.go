package source

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// filter is a list of conditions that must all hold.
type filter []condition

// condition compares something of an event with a literal, as in "ret < 0".
type condition struct {
	path string // a field, such as "pid" or "at.x", or one of builtins
	op   string
	text string // the literal
	// number is the literal's value, if it is one.
	number any // int64, uint64 or float64
}

// operators, longer ones first.
var operators = []string{"==", "!=", "<=", ">=", "<", ">"}

// parseFilter reads conditions joined by "&&". An empty text has none.
func parseFilter(text string) (f filter, err error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	rest := text
	for {
		var c condition
		if c, rest, err = parseCondition(rest); err != nil {
			return nil, fmt.Errorf("--filter %q: %w", text, err)
		}
		f = append(f, c)
		if rest == "" {
			return f, nil
		}
		var more bool
		if rest, more = strings.CutPrefix(rest, "&&"); !more {
			return nil, fmt.Errorf("--filter %q: %q should be && and a condition", text, rest)
		}
	}
}

// parseCondition reads one, and returns what comes behind.
func parseCondition(s string) (c condition, rest string, err error) {
	s = strings.TrimSpace(s)
	end := strings.IndexFunc(s, func(r rune) bool { return strings.ContainsRune(" =!<>&\t", r) })
	if end <= 0 {
		return c, "", fmt.Errorf("%q should be a condition, such as pid == 12 or comm == \"sh\"", s)
	}
	c.path, s = s[:end], strings.TrimSpace(s[end:])
	for _, op := range operators {
		if after, ok := strings.CutPrefix(s, op); ok {
			c.op, s = op, strings.TrimSpace(after)
			break
		}
	}
	if c.op == "" {
		return c, "", fmt.Errorf("behind %s should be one of %s", c.path, strings.Join(operators, " "))
	}
	if c.text, s, err = parseLiteral(s); err != nil {
		return c, "", fmt.Errorf("%s %s: %w", c.path, c.op, err)
	}
	c.number = parseNumber(c.text)
	return c, strings.TrimSpace(s), nil
}

// parseLiteral reads a quoted or bare word.
func parseLiteral(s string) (text, rest string, err error) {
	if s == "" {
		return "", "", errors.New("a value is missing")
	}
	switch s[0] {
	case '"':
		quoted, err := strconv.QuotedPrefix(s)
		if err != nil {
			return "", "", fmt.Errorf("%s: the closing quote is missing", s)
		}
		text, err = strconv.Unquote(quoted)
		return text, s[len(quoted):], err
	case '\'':
		text, rest, ok := strings.Cut(s[1:], "'")
		if !ok {
			return "", "", fmt.Errorf("%s: the closing quote is missing", s)
		}
		return text, rest, nil
	}
	end := strings.IndexAny(s, " \t&")
	if end < 0 {
		end = len(s)
	}
	if end == 0 {
		return "", "", errors.New("a value is missing")
	}
	return s[:end], s[end:], nil
}

// parseNumber returns an int64, uint64 or float64, or nil.
func parseNumber(s string) any {
	if n, err := strconv.ParseInt(s, 0, 64); err == nil {
		return n
	}
	if n, err := strconv.ParseUint(s, 0, 64); err == nil {
		return n
	}
	if n, err := strconv.ParseFloat(s, 64); err == nil && !math.IsNaN(n) {
		return n
	}
	return nil
}

// pidIs is the condition that --pid stands for.
func pidIs(pid int) condition {
	return condition{path: pidField, op: "==", text: strconv.Itoa(pid), number: int64(pid)}
}

// pidField stands for the field pid, or tgid if there is none.
const pidField = "(pid)"

// builtins are what can be compared besides fields, which go before them.
var builtins = map[string]func(c *condition) error{
	"cpu":       wantNumber,
	"size":      wantNumber,
	"timestamp": wantNumber,
	"time": func(c *condition) error {
		if d, err := time.ParseDuration(c.text); err == nil {
			c.number = d.Seconds()
		}
		if c.number == nil {
			return errors.New("time is that since the first event: compare it with seconds, or a duration such as 1.5s")
		}
		return nil
	},
	"kind": func(c *condition) error {
		switch c.text {
		case "sample", "lost", "corrupt":
			return wantEqual(c)
		}
		return fmt.Errorf("kind is sample, lost or corrupt, not %q", c.text)
	},
}

func wantNumber(c *condition) error {
	if c.number == nil {
		return fmt.Errorf("%s is a number, not %q", c.path, c.text)
	}
	return nil
}

func wantEqual(c *condition) error {
	if c.op != "==" && c.op != "!=" {
		return fmt.Errorf("%s can be compared by == and != only", c.path)
	}
	return nil
}
