package source

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"
	"github.com/ringfold/ringfold/perfbuf"
)

// checkFilters fails if a filter compares what there is not. It must be called before the first event.
func (set *Set) checkFilters() error {
	return cmp.Or(set.check(set.flags.filter, "--filter"), set.check(set.flags.trigger, "--trigger"))
}

func (set *Set) check(f filter, flag string) error {
	return f.each(func(c *condition) error {
		err := set.checkCondition(c)
		if err == nil {
			return nil
		}
		if c.path == pidField {
			flag = "--pid"
		}
		return fmt.Errorf("%s: %w", flag, err)
	})
}

// checkCondition fails if no source has the field, or it cannot be compared with the literal.
func (set *Set) checkCondition(c *condition) error {
	found, lacking := false, false
	for _, s := range set.Sources {
		var typ btf.Type
		if s.Decoder != nil {
			typ = s.Decoder.member(c.field(s.Decoder))
		}
		if typ == nil {
			lacking = true
			if err := c.checkBuiltin(s); err != nil {
				return err
			}
			continue
		}
		found = true
		if err := c.checkType(typ); err != nil {
			return err
		}
	}
	check, names := builtins[c.path], set.fields()
	switch {
	case check != nil && lacking:
		return check(c)
	case found:
		return nil
	case c.path == pidField:
		return fmt.Errorf("events have no field pid or tgid: they have %s", strings.Join(names, ", "))
	case names == nil:
		return fmt.Errorf("cpu, size, time, timestamp and kind can be compared without --type NAME, which says where %s is", c.path)
	}
	return fmt.Errorf("there is no field %s: events have %s, besides cpu, size, time, timestamp and kind", c.path, strings.Join(names, ", "))
}

// checkBuiltin fails if events of a source have no time or no CPU to compare.
func (c *condition) checkBuiltin(s *Source) error {
	switch {
	case (c.path == "time" || c.path == "timestamp") && !s.Timed():
		return fmt.Errorf("the ring buffer %s has no times: say where in payloads they are, as in name %s,time=0", s, s.Name)
	case c.path == "cpu" && s.Map.Type == "ringbuf" && s.CPUAt == nil: // in an array of them, the index is the CPU
		return fmt.Errorf("say where the ring buffer %s has the CPU, as in name %s,cpu=8", s, s.Name)
	}
	return nil
}

// field is the path that the condition is about in a decoder's type.
func (c *condition) field(d *Decoder) string {
	if c.path != pidField {
		return c.path
	}
	if d.member("pid") != nil {
		return "pid"
	}
	return "tgid"
}

// checkType fails if a field of this type cannot be compared with the literal.
func (c *condition) checkType(typ btf.Type) error {
	switch t := typ.(type) {
	case *btf.Array:
		elem, ok := btf.UnderlyingType(t.Type).(*btf.Int)
		switch {
		case !ok || elem.Size != 1:
			return fmt.Errorf("%s is an array: only text and bytes can be compared", c.path)
		case !isChar(elem):
			if _, err := hex.DecodeString(c.text); err != nil {
				return fmt.Errorf("%s is bytes: compare it with hexadecimal digits, as it is shown", c.path)
			}
			return wantEqual(c)
		}
		return nil
	case *btf.Struct, *btf.Union:
		return fmt.Errorf("%s is a struct: compare one of its fields, as in %[1]s.NAME", c.path)
	case *btf.Enum:
		unused := 64 - 8*t.Size // clang before 15 does not say that an enum is signed
		for _, v := range t.Values {
			signed := int64(v.Value<<unused) >> unused
			if v.Name == c.text || c.number != nil && (compareNumbers(v.Value, c.number) == 0 || compareNumbers(signed, c.number) == 0) {
				c.text = string(scalar(t, v.Value, 64).(enumerator)) // the name that fields have: of several, the first
				return wantEqual(c)
			}
		}
		if c.number == nil {
			return fmt.Errorf("%s has no value %s", c.path, c.text)
		}
		return wantEqual(c)
	case *btf.Int:
		if t.Encoding == btf.Bool && (c.text == "true" || c.text == "false") {
			return wantEqual(c)
		}
	}
	return wantNumber(c)
}

// match reports whether the filter holds. A loss is never filtered out by what only samples have.
func (f filter) match(ev Event, first uint64) bool {
	if f.condition != nil {
		return f.holds(ev, first)
	}
	for _, part := range f.parts {
		if part.match(ev, first) == f.any {
			return f.any
		}
	}
	return !f.any
}

func (c *condition) holds(ev Event, first uint64) bool {
	if d := ev.From.Decoder; d != nil {
		path := c.field(d)
		if d.member(path) != nil {
			if ev.Kind() != perfbuf.KindSample {
				return true
			}
			v, ok := ev.Fields.lookup(path)
			return ok && c.compare(v)
		}
	}
	switch c.path {
	case "cpu":
		return c.compare(int64(ev.CPU()))
	case "time":
		return c.compare(float64(int64(ev.Time()-first)) / 1e9)
	case "timestamp":
		return c.compare(ev.Time())
	case "kind":
		return c.compare(kinds[ev.Kind()])
	case "size":
		return ev.Kind() != perfbuf.KindSample || c.compare(int64(len(ev.Bytes())))
	}
	return ev.Kind() != perfbuf.KindSample // a field of other sources
}

var kinds = map[perfbuf.Kind]string{perfbuf.KindSample: "sample", perfbuf.KindLost: "lost", perfbuf.KindShed: "shed", perfbuf.KindCorrupt: "corrupt"}

// compare compares a value with the literal.
func (c *condition) compare(v Value) bool {
	var order int
	switch v := v.(type) {
	case string:
		order = cmp.Compare(v, c.text)
	case enumerator:
		order = cmp.Compare(string(v), c.text)
	case raw:
		order = cmp.Compare(hex.EncodeToString(v), strings.ToLower(c.text))
	case bool:
		order = compareNumbers(truth[v], cmp.Or(truths[c.text], c.number))
	case address:
		order = compareNumbers(uint64(v), c.number)
	case int64, uint64, float64:
		order = compareNumbers(v, c.number)
	default:
		return false
	}
	switch {
	case c.op == "!=":
		return order != 0
	case order == 0:
		return strings.HasSuffix(c.op, "=")
	case order < 0:
		return c.op[0] == '<'
	default:
		return c.op[0] == '>'
	}
}

// What a bool counts as, and its names in a literal.
var (
	truth  = map[bool]int64{true: 1}
	truths = map[string]any{"true": int64(1), "false": int64(0)}
)

// compareNumbers compares two of int64, uint64 and float64, integers exactly.
func compareNumbers(a, b any) int {
	aHigh, aLow, aWhole := wide(a)
	bHigh, bLow, bWhole := wide(b)
	if aWhole && bWhole {
		return cmp.Or(cmp.Compare(aHigh, bHigh), cmp.Compare(aLow, bLow))
	}
	return cmp.Compare(toFloat(a), toFloat(b))
}

// wide is an integer in two's complement of 128 bits.
func wide(n any) (high int64, low uint64, ok bool) {
	switch n := n.(type) {
	case int64:
		return n >> 63, uint64(n), true
	case uint64:
		return 0, n, true
	}
	return 0, 0, false
}

func toFloat(n any) float64 {
	switch n := n.(type) {
	case int64:
		return float64(n)
	case uint64:
		return float64(n)
	}
	f, _ := n.(float64)
	return f
}

// CheckFields fails if one of these is no field of any source.
func (set *Set) CheckFields(names []string) error {
	for _, name := range names {
		found := slices.ContainsFunc(set.Sources, func(s *Source) bool { return s.Decoder != nil && s.Decoder.member(name) != nil })
		if there := set.fields(); there == nil {
			return errors.New("--fields chooses among fields: say by --type NAME what events are")
		} else if !found {
			return fmt.Errorf("--fields: there is no field %s: events have %s", name, strings.Join(there, ", "))
		}
	}
	return nil
}

// fields are those of all sources, for people; nil if none is decoded.
func (set *Set) fields() (names []string) {
	for _, s := range set.Sources {
		if s.Decoder != nil {
			names = append(names, s.Decoder.fields()...)
		}
	}
	return names
}
