package source

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// filter is a condition, or several filters: all of them must hold, or any. The zero filter always holds.
type filter struct {
	*condition
	parts []filter
	any   bool
}

// each hands all conditions to do, until one fails.
func (f filter) each(do func(*condition) error) error {
	if f.condition != nil {
		return do(f.condition)
	}
	for _, part := range f.parts {
		if err := part.each(do); err != nil {
			return err
		}
	}
	return nil
}

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

// parseFilter reads conditions joined by "&&" and "||", of which && binds tighter, and parentheses. An empty text always holds.
func parseFilter(text string) (f filter, err error) {
	p := parser{text}
	if p.skip(""); p.rest == "" {
		return filter{}, nil
	}
	if f, err = p.either(); err == nil && p.rest != "" {
		err = fmt.Errorf("%q should be && or || and a condition", p.rest)
	}
	return f, err
}

// parser has what is still to be read, without blanks before it.
type parser struct{ rest string }

// skip goes on behind token, and the blanks behind that, if token comes next.
func (p *parser) skip(token string) bool {
	rest, found := strings.CutPrefix(p.rest, token)
	if found {
		p.rest = strings.TrimSpace(rest)
	}
	return found
}

func (p *parser) either() (filter, error) { return p.several("||", p.all) }
func (p *parser) all() (filter, error)    { return p.several("&&", p.one) }

// several reads parts with an operator between.
func (p *parser) several(op string, part func() (filter, error)) (filter, error) {
	f := filter{any: op == "||"}
	for {
		one, err := part()
		if err != nil {
			return f, err
		}
		if f.parts = append(f.parts, one); p.skip(op) {
			continue
		}
		if len(f.parts) == 1 {
			return one, nil
		}
		return f, nil
	}
}

// one reads a condition, or a filter in parentheses.
func (p *parser) one() (filter, error) {
	if !p.skip("(") {
		c, err := p.comparison()
		return filter{condition: c}, err
	}
	f, err := p.either()
	if err == nil && !p.skip(")") {
		err = fmt.Errorf("%q should be && or || and a condition, or )", p.rest)
	}
	return f, err
}

func (p *parser) comparison() (c *condition, err error) {
	end := strings.IndexFunc(p.rest, func(r rune) bool { return strings.ContainsRune(" =!<>&|()\t", r) })
	if end <= 0 {
		return nil, fmt.Errorf("%q should be a condition, such as pid == 12 or comm == \"sh\"", p.rest)
	}
	c = &condition{path: p.rest[:end]}
	p.skip(c.path)
	at := slices.IndexFunc(operators, p.skip)
	if at < 0 {
		return nil, fmt.Errorf("behind %s should be one of %s", c.path, strings.Join(operators, " "))
	}
	c.op = operators[at]
	if c.text, p.rest, err = parseLiteral(p.rest); err != nil {
		return nil, fmt.Errorf("%s %s: %w", c.path, c.op, err)
	}
	p.skip("")
	c.number = parseNumber(c.text)
	return c, nil
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
	end := strings.IndexAny(s, " \t&|()")
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
func pidIs(pid int) filter {
	return filter{condition: &condition{path: pidField, op: "==", text: strconv.Itoa(pid), number: int64(pid)}}
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
